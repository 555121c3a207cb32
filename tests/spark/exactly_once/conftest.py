"""A broker behind a road that loses things, shared by the tests here: each makes its own topic."""

from collections.abc import Iterator

import pytest
from tests.spark.cluster.stage import Stage


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture
def servers(stage: Stage) -> str:
    return f"127.0.0.1:{stage.road.port}"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own, to be given to topic and sink."""
    return str(request.node.name).replace("[", "-").replace("]", "")
