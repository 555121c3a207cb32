"""Who tests the tester: every planted mistake is found, by the seed that `planted.finds` names, and
as what it is.

`python -m tests.sim.planted_run` looks for the first such seed of each; what it found last is in
bench/results/sim-planted.txt.
"""

import logging
from collections.abc import Iterator
from typing import NoReturn

import pytest
from tests.sim import cluster_run
from tests.sim.planted import search
from tests.sim.planted.finds import FOUND_BY
from tests.sim.planted.mistakes import PLANTS, a_mistake
from tests.sim.planted.search import first_that_finds
from tests.sim.test_cluster_seeds import FIND_MORE, SEEDS

from barnabas.sim.cluster.plan import Fault, draw_plan
from barnabas.sim.cluster.run import SeedFailedError, simulate
from barnabas.sim.cluster.settings import Settings
from barnabas.sim.cluster.shrinking import promise_of
from barnabas.sim.cluster.story import Report
from barnabas.sim.cluster.truth import BrokenPromiseError

pytestmark = pytest.mark.timeout(600)
SEEDS_MAX = 300
SHRUNK = "committed_with_too_few_in_sync"


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_every_mistake_has_its_seed() -> None:
    assert set(FOUND_BY) == set(PLANTS)
    told = {*SEEDS, *FIND_MORE}
    assert {each.seed for each in FOUND_BY.values()} <= told, (
        "these find nothing where there is no mistake"
    )


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_mistake_is_found(name: str) -> None:
    known = FOUND_BY[name].seed
    assert first_that_finds(PLANTS[name], (known, *range(SEEDS_MAX))) is not None


def test_what_fails_of_something_else_has_not_found_the_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    why: list[Exception] = [
        BrokenPromiseError("Liveness: nobody leads"),
        ValueError("MaximalIsr: of no promise"),
        BrokenPromiseError("MaximalIsr: b1 does not wait for b2"),
    ]

    def fails(seed: int) -> NoReturn:
        raise SeedFailedError(Report(seed), [], why[seed])

    monkeypatch.setattr(search, "simulate", fails)
    found = first_that_finds(PLANTS["only_the_proposed_isr_counts"], range(3))
    assert found is not None
    assert (found.seed, found.promise) == (2, "MaximalIsr")


def test_a_failing_seed_is_told_with_faults_that_replay_it() -> None:
    """As `make test-cluster-sim` tells it, and with the very lines that it prints."""
    found = first_that_finds(PLANTS[SHRUNK], (FOUND_BY[SHRUNK].seed, *range(SEEDS_MAX)))
    assert found is not None
    seed = found.seed
    with a_mistake(PLANTS[SHRUNK]):
        told = cluster_run.told(seed)
        lines = told["fewest"]
        first, second = (cluster_run.told_again(seed, lines) for _ in range(2))
        with pytest.raises(SeedFailedError) as failed:
            simulate(seed, [Fault.read(line) for line in lines])
    assert 0 < len(lines) < len(draw_plan(seed, Settings.draw(seed)))
    assert promise_of(failed.value) == found.promise
    assert str(failed.value) in first
    assert failed.value.report.digest in first
    assert first == second
    assert cluster_run.failure_text(told).splitlines() == [
        told["failure"],
        *(f"    {line}" for line in lines),
    ]
