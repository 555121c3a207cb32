"""Replicas are spread evenly, over different brokers and racks."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.image import BrokerNode
from barnabas.cluster.placement import check_assignment, place
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.entropy import Entropy

BROKERS = st.lists(
    st.tuples(st.integers(0, 1000), st.sampled_from([None, "a", "b", "c"])),
    min_size=1,
    max_size=12,
    unique_by=lambda broker: broker[0],
).map(lambda found: [BrokerNode(number, "h", 1, rack) for number, rack in found])


@given(brokers=BROKERS, count=st.integers(1, 60), seed=st.integers(0, 99), data=st.data())
def test_any_placement_is_even_and_apart(
    seeded: Callable[[int], Entropy],
    brokers: list[BrokerNode],
    count: int,
    seed: int,
    data: st.DataObject,
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place(brokers, count, factor, seeded(seed))
    racks = {broker.id: broker.rack for broker in brokers}
    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        spread = {racks[replica] for replica in replicas}
        assert len(spread) == min(factor, len(set(racks.values())))
    leaders = Counter({broker.id: 0 for broker in brokers})
    leaders.update(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_the_same_chance_gives_the_same_placement(seeded: Callable[[int], Entropy]) -> None:
    brokers = [BrokerNode(number, "h", 1) for number in range(5)]
    assert place(brokers, 9, 3, seeded(1)) == place(brokers, 9, 3, seeded(1))
    starts = {place(brokers, 1, 1, seeded(seed))[0] for seed in range(50)}
    assert starts == {(number,) for number in range(5)}


def test_one_leader_has_different_followers_round_by_round(entropy: Entropy) -> None:
    brokers = [BrokerNode(number, "h", 1) for number in range(4)]
    placed = place(brokers, 12, 2, entropy)
    assert len(set(placed)) == 12


def test_more_replicas_than_brokers_is_refused(entropy: Entropy) -> None:
    with pytest.raises(
        KafkaError, match=r"Unable to replicate the partition 2 time\(s\)"
    ) as caught:
        place([BrokerNode(0, "h", 1)], 1, 2, entropy)
    assert caught.value.code is ErrorCode.invalid_replication_factor


@pytest.mark.parametrize(
    ("replicas", "factor", "problem"),
    [
        ([], None, "an empty replica list"),
        ([0, 7], None, "includes broker 7, but no such broker is registered"),
        ([1, 0, 1], None, "includes the broker 1 more than once"),
        ([0], 2, r"with 1 replica\(s\), but earlier partitions have 2"),
    ],
)
def test_a_hand_made_assignment_is_checked(
    replicas: list[int], factor: int | None, problem: str
) -> None:
    with pytest.raises(KafkaError, match=problem) as caught:
        check_assignment(replicas, {0, 1, 2}, factor)
    assert caught.value.code is ErrorCode.invalid_replica_assignment
    check_assignment([2, 0], {0, 1, 2}, 2)
