"""Who tests the tester: every planted mistake is found, by the seed that is named here.

`python -m tests.sim.planted_run` looks for the first such seed of each; what it found last is in
bench/results/sim-planted.txt.
"""

import logging
from collections.abc import Iterator

import pytest
from tests.sim import cluster_run
from tests.sim.planted.mistakes import PLANTS, a_mistake
from tests.sim.planted.search import first_that_finds
from tests.sim.test_cluster_seeds import FIND_MORE, SEEDS

from barnabas.sim.cluster.plan import Fault, draw_plan
from barnabas.sim.cluster.run import SeedFailedError, simulate
from barnabas.sim.cluster.settings import Settings
from barnabas.sim.cluster.shrinking import promise_of

FOUND_BY = {
    "acknowledged_before_it_is_committed": 0,
    "groups_answer_before_they_have_committed": 14,
    "readers_see_what_is_not_committed": 0,
    "the_end_of_a_transaction_counts_before_it_is_committed": 0,
    "a_new_leader_tells_an_end_that_it_does_not_know": 1,
    "cut_back_to_the_high_watermark": 0,
    "only_the_proposed_isr_counts": 0,
    "followers_join_before_they_have_caught_up": 3,
    "committed_with_too_few_in_sync": 0,
    "what_followers_had_in_another_epoch_counts": 231,
    "a_follower_counts_for_what_it_had_in_a_former_life": 65,
    "nobody_looks_where_logs_part": 2,
    "epochs_that_the_leader_does_not_know_are_believed": 2,
    "the_controller_checks_no_versions": 2,
    "an_unclean_restart_stays_in_sync": 2,
    "anybody_is_elected": 1,
    "a_leader_goes_on_without_its_lease": 9,
    "a_move_ends_before_all_are_in_sync": 3,
    "who_is_to_go_goes_at_once": 3,
    "who_went_counts_for_what_it_had_when_it_comes_back": 5,
    "names_are_not_synced": 0,
    "the_first_segment_is_not_named_first": 4,
    "torn_batches_are_kept": 0,
    "what_is_not_synced_counts_as_if_it_were": 2,
    "producers_are_forgotten_at_start": 14,
    "repeated_batches_are_out_of_order": 0,
}
"""The first seed that finds a mistake. Another broker has other stories: then it may be another."""

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
    assert set(FOUND_BY.values()) <= told, "these find nothing where there is no mistake"


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_mistake_is_found(name: str) -> None:
    known = FOUND_BY[name]
    assert first_that_finds(PLANTS[name], (known, *range(SEEDS_MAX))) is not None


def test_a_failing_seed_is_told_with_faults_that_replay_it() -> None:
    """As `make test-cluster-sim` tells it, and with the very lines that it prints."""
    found = first_that_finds(PLANTS[SHRUNK], (FOUND_BY[SHRUNK], *range(SEEDS_MAX)))
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
