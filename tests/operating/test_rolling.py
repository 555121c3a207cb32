"""Who is restarted next, who can be done without, and what is wrong with a cluster."""

from barnabas.operating.health import health_of
from barnabas.operating.rolling import needs, next_broker, not_preferred, out_of_sync, under_min_isr
from barnabas.operating.snapshot import (
    BrokerFacts,
    Moving,
    PartitionFacts,
    Place,
    Snapshot,
    TopicFacts,
)

BROKERS = {number: BrokerFacts(number, "host", 9090 + number) for number in (1, 2, 3)}
WELL = PartitionFacts(1, 5, (1, 2, 3), (1, 2, 3))
T0 = Place("t", 0)


def cluster(
    *partitions: PartitionFacts, moving: dict[Place, Moving] | None = None, away: int = 0
) -> Snapshot:
    return Snapshot(
        cluster_id="c",
        controller=2,
        brokers={number: each for number, each in BROKERS.items() if number != away},
        topics={"t": TopicFacts("id", dict(enumerate(partitions)))},
        moving=moving or {},
    )


def test_the_controller_is_restarted_last() -> None:
    assert [next_broker({1, 2, 3}, 1), next_broker({1, 3}, 1), next_broker({1}, 1)] == [2, 3, 1]


def test_everything_is_in_sync_or_one_that_is_not_is_named() -> None:
    assert out_of_sync(cluster(WELL)) is None
    assert out_of_sync(cluster(WELL, PartitionFacts(1, 5, (1, 2, 3), (1, 2)))) == Place("t", 1)
    assert out_of_sync(cluster(PartitionFacts(3, 5, (3,), (3,)), away=3)) == T0


def test_a_replica_that_is_being_made_is_not_missed() -> None:
    copying = PartitionFacts(1, 5, (3, 1, 2), (1, 2))
    assert out_of_sync(cluster(copying)) == T0
    assert out_of_sync(cluster(copying, moving={T0: Moving((3,), (2,))})) is None


def test_who_can_not_be_done_without() -> None:
    two = PartitionFacts(1, 5, (1, 2, 3), (1, 2))
    assert needs(cluster(WELL), 1, {"t": 2}) is None
    assert needs(cluster(two), 1, {"t": 2}) == T0
    assert needs(cluster(two), 3, {"t": 2}) is None
    # With one replica nothing is written while it is away, whatever was asked for.
    assert needs(cluster(PartitionFacts(1, 5, (1,), (1,))), 1, {}) == T0


def test_what_is_under_min_isr_counts_replicas_that_exist() -> None:
    assert under_min_isr(cluster(PartitionFacts(1, 5, (1, 2), (1,))), {"t": 2}) == T0
    assert under_min_isr(cluster(PartitionFacts(1, 5, (1,), (1,))), {"t": 2}) is None


def test_leaders_that_could_be_the_preferred_ones() -> None:
    other = PartitionFacts(2, 5, (1, 2, 3), (1, 2, 3))
    late = PartitionFacts(2, 5, (1, 2, 3), (2, 3))
    assert not_preferred(cluster(WELL, other, late)) == [Place("t", 1)]


def test_health_names_every_partition_by_what_is_wrong() -> None:
    found = health_of(
        cluster(
            WELL, PartitionFacts(1, 5, (1, 2, 3), (1,)), PartitionFacts(3, 5, (3,), (3,)), away=3
        ),
        {"t": 2},
    )
    assert found.dead == [3]
    assert found.without_leader == [Place("t", 2)]
    assert found.under_min_isr == [Place("t", 1)]
    assert found.under_replicated == [Place("t", 1)]
    assert not found.is_good
    assert health_of(cluster(WELL), {"t": 2}).is_good


def test_a_replica_that_is_being_made_does_not_raise_what_is_needed() -> None:
    moved = cluster(PartitionFacts(1, 5, (3, 1), (1,)), moving={T0: Moving((3,), (1,))})
    assert under_min_isr(moved, {"t": 2}) is None
    assert health_of(moved, {"t": 2}).is_good
