"""Offsets that producers commit within their transactions: seen once those are committed."""

from collections.abc import Iterator
from typing import final

from barnabas.coordinator.runtime.pending import Pending
from barnabas.wire.stored import OffsetCommit, OffsetValue
from barnabas.wire.stored.offsets import NO_TOPIC_ID

Place = tuple[str, int]
"""Topic and partition."""


@final
class PendingOffsets:
    """Of each group of one shard, by producer."""

    def __init__(self) -> None:
        self._groups: dict[str, Pending[Place, OffsetValue]] = {}
        self._groups_of: dict[int, dict[str, None]] = {}
        """Which groups a producer has written to since its last transaction ended."""

    def write(self, record: OffsetCommit, producer_id: int) -> None:
        """It is in the log, as part of the producer's transaction."""
        place = record.topic, record.partition
        if record.value is None:
            self.remove(record.group, place)
            return
        self._groups.setdefault(record.group, Pending()).write(producer_id, place, record.value)
        self._groups_of.setdefault(producer_id, {})[record.group] = None

    def overtake(self, group_id: str, place: Place) -> None:
        """An offset was committed outside of transactions: it stays, whatever becomes of them."""
        pending = self._groups.get(group_id)
        if pending is not None:
            pending.overtake(place)

    def remove(self, group_id: str, place: Place) -> None:
        """The group has no offset there any more, and none to come."""
        pending = self._groups.get(group_id)
        if pending is not None:
            pending.remove(place)
            self._forget_if_empty(group_id, pending)

    def end(self, producer_id: int, *, committed: bool) -> list[OffsetCommit]:
        """The producer's transaction has ended: the offsets that are committed by that."""
        records: list[OffsetCommit] = []
        for group_id in self._groups_of.pop(producer_id, {}):
            pending = self._groups.get(group_id)
            if pending is None:
                continue
            for (topic, partition), value in pending.end(producer_id, committed=committed):
                records.append(OffsetCommit(group_id, topic, partition, value))
            self._forget_if_empty(group_id, pending)
        return records

    def groups(self) -> Iterator[str]:
        """Those with something pending."""
        return iter(self._groups)

    def places(self, group_id: str) -> list[Place]:
        """Where an open transaction may change the group's offset."""
        return list(self._groups.get(group_id, ()))

    def holds(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change the group's offset there."""
        return (topic, partition) in self._groups.get(group_id, ())

    def in_topic(self, topic: str, topic_id: bytes) -> list[tuple[str, int]]:
        """Group and partition of what is pending in this very topic, or one of an unknown id."""
        return [
            (group_id, partition)
            for group_id, pending in self._groups.items()
            for name, partition in pending
            if name == topic
            and any(
                value.topic_id in (NO_TOPIC_ID, topic_id)
                for value in pending.values((name, partition))
            )
        ]

    def _forget_if_empty(self, group_id: str, pending: Pending[Place, OffsetValue]) -> None:
        if not pending:
            del self._groups[group_id]
