"""Which machines may lose their power, so that nothing is lost that was promised."""

from barnabas.cluster.image import PartitionState
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.trust import Trust

PLACE = TopicPartition("events", 0)


def trust(*isr: int, eligible: tuple[int, ...] = (), synced: bool = False) -> Trust:
    made = Trust(synced=synced)
    made.stored(PLACE, PartitionState(1, 0, (1, 2, 3), isr, 0, eligible))
    return made


def test_one_member_at_a_time_loses_its_power() -> None:
    """With two of three, the third may be away when a leader is elected: the seed 6032 was so."""
    three = trust(1, 2, 3)
    assert three.allows_power_loss(1)
    three.lost_power(1)
    assert three.allows_power_loss(1)
    assert not three.allows_power_loss(2)
    three.stored(PLACE, PartitionState(2, 1, (1, 2, 3), (2, 3), 1))
    assert three.allows_power_loss(2)


def test_the_last_member_keeps_its_power() -> None:
    assert not trust(1).allows_power_loss(1)
    assert trust(1, eligible=(2,)).allows_power_loss(1)
    assert trust(1).allows_power_loss(2)


def test_with_everything_synced_everybody_may_lose_it() -> None:
    synced = trust(1, 2, 3, synced=True)
    for number in (1, 2, 3):
        assert synced.allows_power_loss(number)
        synced.lost_power(number)
