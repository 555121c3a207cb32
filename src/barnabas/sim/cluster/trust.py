"""Which faults the promise covers: who may have lost records, and who may not lose any now.

P1: an acknowledged record survives any number of process kills, and one machine that loses its
unsynced bytes. So while a machine that has lost bytes still counts as in sync somewhere, all other
members have to keep their own: that one of them does is not enough, for it may be away, and those
who are there make up an ISR that is large enough without it. With flush.messages=1 nothing of that
matters.
"""

from collections.abc import Iterable

from barnabas.cluster.image import PartitionState
from barnabas.model.topics import TopicPartition


class Trust:
    """Who is in sync in name only."""

    def __init__(self, *, synced: bool) -> None:
        self._synced = synced
        self._members: dict[TopicPartition, tuple[int, ...]] = {}
        """Who is in the ISR, or eligible."""
        self._tainted: set[tuple[int, TopicPartition]] = set()
        """Who counts as in sync and has lost bytes."""

    def stored(self, partition: TopicPartition, state: PartitionState) -> None:
        """The stored state is another: whoever has left may come back, with everything."""
        members = self._members[partition] = (*state.isr, *state.eligible)
        self._tainted = {
            each for each in self._tainted if each[1] != partition or each[0] in members
        }

    def is_tainted(self, broker: int, partition: TopicPartition) -> bool:
        """Whether it counts as in sync, and has lost bytes."""
        return (broker, partition) in self._tainted

    def lost_power(self, broker: int) -> None:
        """A machine has lost unsynced bytes."""
        if not self._synced:
            self._tainted |= {(broker, each) for each in self._of(broker)}

    def allows_power_loss(self, broker: int) -> bool:
        """Whether records survive that this machine loses what it has not synced."""
        return self._synced or all(
            self._others_are_sound(broker, partition) for partition in self._of(broker)
        )

    def _others_are_sound(self, broker: int, partition: TopicPartition) -> bool:
        others = [each for each in self._members[partition] if each != broker]
        return bool(others) and not any(self.is_tainted(each, partition) for each in others)

    def _of(self, broker: int) -> Iterable[TopicPartition]:
        return [each for each, members in self._members.items() if broker in members]
