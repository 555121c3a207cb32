"""Every store that the coordination contract holds for."""

from pathlib import Path

import pytest
from tests.ports.stores import Runner, embedded_runner, simulator_runner, zookeeper_runner


def _runner(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    kind = request.param
    if kind == "simulator":
        return simulator_runner()
    if kind == "zookeeper":
        return zookeeper_runner(request.getfixturevalue("zookeeper").connect)
    return embedded_runner(tmp_path / "metadata.sqlite" if kind == "disk" else None)


@pytest.fixture(params=["disk", "memory", "simulator", "zookeeper"])
def within(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    """Runs a scenario with a fresh tree and an open session, and ends it afterwards."""
    return _runner(request, tmp_path)


@pytest.fixture(params=["simulator", "zookeeper"])
def among(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    """The same, on a store that several can use."""
    return _runner(request, tmp_path)
