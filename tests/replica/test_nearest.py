"""Which replica a consumer is sent to."""

from tests.replica.exchange import state

from barnabas.cluster.image import BrokerNode
from barnabas.replica.in_sync import InSync
from barnabas.replica.nearest import nearest_replica

RACKS = {1: "a", 2: "b", 3: "b", 4: "c"}


def brokers() -> dict[int, BrokerNode]:
    return {number: BrokerNode(number, "h", 1, rack) for number, rack in RACKS.items()}


def known(isr: tuple[int, ...] = (1, 2, 3, 4), **ends: int) -> InSync:
    """As the leader, broker 1, sees its followers: each has offsets 10 to 100."""
    in_sync = InSync(1, state(1, 0, isr, replicas=(1, 2, 3, 4)), 100, 0.0)
    for number in (2, 3, 4):
        in_sync.fetched(number, 0, ends.get(f"end{number}", 100), 100, float(number), 10)
    return in_sync


def test_a_consumer_reads_in_its_own_rack() -> None:
    assert nearest_replica(known(), "c", 50, brokers()) == 4
    assert nearest_replica(known(), "a", 50, brokers()) is None, "the leader is there"
    assert nearest_replica(known(), "elsewhere", 50, brokers()) is None


def test_of_several_the_one_that_has_most_is_chosen() -> None:
    assert nearest_replica(known(end2=100, end3=60), "b", 50, brokers()) == 2
    assert nearest_replica(known(end2=60, end3=100), "b", 50, brokers()) == 3
    # Both have the same: broker 3 had everything more lately.
    assert nearest_replica(known(), "b", 50, brokers()) == 3


def test_a_follower_that_has_not_got_the_offset_is_not_chosen() -> None:
    assert nearest_replica(known(end4=60), "c", 60, brokers()) == 4
    assert nearest_replica(known(end4=60), "c", 61, brokers()) is None
    assert nearest_replica(known(), "c", 9, brokers()) is None


def test_only_live_members_of_the_isr_are_chosen() -> None:
    assert nearest_replica(known(isr=(1, 2, 3)), "c", 50, brokers()) is None
    there = brokers()
    gone = {number: node for number, node in there.items() if number != 4}
    assert nearest_replica(known(), "c", 50, gone) is None
    leaving = there | {4: BrokerNode(4, "h", 1, "c", leaving=True)}
    assert nearest_replica(known(), "c", 50, leaving) is None
    # One that has not fetched in this epoch may have anything.
    silent = InSync(1, state(1, 1, (1, 4), replicas=(1, 4)), 100, 0.0)
    assert nearest_replica(silent, "c", 50, there) is None
