"""The offsets that groups have committed, and what becomes of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, final

from barnabas.cluster.image import Topic
from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import (
    UNSTABLE,
    Commit,
    CommitPartition,
    CommittedOffset,
    TxnCommit,
)
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.offsets.pending import PendingOffsets
from barnabas.coordinator.runtime.turn import Turn
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored import OffsetCommit, OffsetValue, Stored
from barnabas.wire.stored.offsets import NO_TIMESTAMP, NO_TOPIC_ID

_RETENTION_OF_THE_BROKER: Final = -1
"""What a commit says that does not ask for a retention time of its own."""

_CLOCK_JUMP_MS: Final = 60_000
"""The wall clock is corrected by seconds in everyday life; by a minute at once only in error."""

_Partitions = dict[int, OffsetValue]


@final
class Offsets:
    """How far each group of one shard has got in each partition."""

    def __init__(self, settings: Callable[[], GroupSettings]) -> None:
        self._settings = settings
        self._groups: dict[str, dict[str, _Partitions]] = {}
        self._groups_by_topic: dict[str, set[str]] = {}
        self._pending = PendingOffsets()
        self._skew_ms: int | None = None
        """By how much the wall clock was ahead of the monotonic one, when last looked at."""
        self._expires_from_ms = 0
        """By the monotonic clock: nothing expires before."""

    def apply(self, record: OffsetCommit) -> None:
        """Take over a committed offset; without a value it is forgotten."""
        place = record.topic, record.partition
        if record.value is None:
            self._forget(record.group, *place)
            self._pending.remove(record.group, place)
        else:
            self._keep(record, record.value)
            self._pending.overtake(record.group, place)

    def apply_pending(self, record: OffsetCommit, producer_id: int) -> None:
        """Take over an offset that counts once the producer's transaction is committed."""
        self._pending.write(record, producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """What is pending for the producer counts now, or never will."""
        for record in self._pending.end(producer_id, committed=committed):
            if record.value is not None:
                self._keep(record, record.value)

    def _keep(self, record: OffsetCommit, value: OffsetValue) -> None:
        topics = self._groups.setdefault(record.group, {})
        partitions = topics.get(record.topic)
        if partitions is None:
            partitions = topics[record.topic] = {}
            self._groups_by_topic.setdefault(record.topic, set()).add(record.group)
        partitions[record.partition] = value

    def _forget(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic)
        if partitions is None:
            return
        partitions.pop(partition, None)
        if partitions:
            return
        del topics[topic]
        self._groups_by_topic[topic].discard(group_id)
        if not self._groups_by_topic[topic]:
            del self._groups_by_topic[topic]
        if not topics:
            del self._groups[group_id]

    def commit(self, turn: Turn[Stored], group: Group, ask: Commit) -> list[ErrorCode]:
        """Write down what a member (or somebody outside) commits: one code for each partition.

        KafkaError when the group does not take commits from the asker.
        """
        group.check_commit(
            turn,
            ask.member_id,
            ask.instance_id,
            ask.generation,
            knows_epochs=ask.knows_epochs,
            partitions=((each.topic_id, each.partition) for each in ask.partitions),
        )
        expires_ms = NO_TIMESTAMP
        if ask.retention_ms != _RETENTION_OF_THE_BROKER:
            expires_ms = max(turn.now_ms + ask.retention_ms, 0)
        codes = self._metadata_codes(ask.partitions)
        for record in _records(ask, codes, turn.now_ms, expires_ms):
            turn.write(record)
        self._see_clocks(turn)
        return codes

    def txn_commit(
        self, turn: Turn[Stored], group: Group | None, ask: TxnCommit
    ) -> list[ErrorCode]:
        """As `commit`, but it counts once the producer's transaction is committed. A producer that
        names no generation may do so for a group that is not there."""
        if group is not None:
            partitions = ((each.topic_id, each.partition) for each in ask.partitions)
            group.check_txn_commit(ask.member_id, ask.instance_id, ask.generation, partitions)
        elif ask.generation >= 0:
            raise KafkaError(ErrorCode.illegal_generation)
        codes = self._metadata_codes(ask.partitions)
        records = tuple(_records(ask, codes, turn.now_ms, NO_TIMESTAMP))
        if records:
            turn.write_in_transaction(ask.producer, records, ask.guard)
        self._see_clocks(turn)
        return codes

    def _metadata_codes(self, partitions: Iterable[CommitPartition]) -> list[ErrorCode]:
        metadata_max = self._settings().offset_metadata_max_bytes
        return [
            ErrorCode.offset_metadata_too_large
            if _java_length(partition.metadata) > metadata_max
            else ErrorCode.none
            for partition in partitions
        ]

    def fetch(
        self, group_id: str, topic: str, partition: int, *, require_stable: bool = False
    ) -> CommittedOffset | None:
        """The group's offset in one partition, if it has one."""
        if require_stable and self._pending.holds(group_id, topic, partition):
            return UNSTABLE
        value = self._groups.get(group_id, {}).get(topic, {}).get(partition)
        return None if value is None else _committed(value)

    def all_of(
        self, group_id: str, *, require_stable: bool = False
    ) -> Mapping[tuple[str, int], CommittedOffset]:
        """The group's offset in every partition in which it has one."""
        return {
            (topic, partition): UNSTABLE
            if require_stable and self._pending.holds(group_id, topic, partition)
            else _committed(value)
            for topic, partition, value in self._values(group_id)
        }

    def groups(self) -> Iterable[str]:
        """Every group that has an offset, or may get one by an open transaction."""
        return {**self._groups, **dict.fromkeys(self._pending.groups())}

    def delete(
        self, turn: Turn[Stored], group: Group, partitions: Sequence[tuple[str, int]]
    ) -> list[ErrorCode]:
        """Forget single offsets: one code for each. Those of topics that are read stay."""
        group.check_offset_delete()
        codes: list[ErrorCode] = []
        for topic, partition in partitions:
            if group.subscribes_to(topic):
                codes.append(ErrorCode.group_subscribed_to_topic)
                continue
            codes.append(ErrorCode.none)
            if self._has_any(group.group_id, topic, partition):
                turn.write(OffsetCommit(group.group_id, topic, partition, None))
        return codes

    def delete_all(self, turn: Turn[Stored], group_id: str) -> None:
        """Forget everything about a group that is deleted, also what is pending for it."""
        for topic, partition, _ in list(self._values(group_id)):
            turn.write(OffsetCommit(group_id, topic, partition, None))
        for topic, partition in self._pending.places(group_id):
            turn.write(OffsetCommit(group_id, topic, partition, None))

    def _has_any(self, group_id: str, topic: str, partition: int) -> bool:
        return self._pending.holds(group_id, topic, partition) or (
            partition in self._groups.get(group_id, {}).get(topic, {})
        )

    def expire(self, turn: Turn[Stored], group: Group) -> bool:
        """Forget what has not been used for too long; True if the group has no offset left, and
        none to come: what an open transaction may change is in use.

        A wall clock that has jumped ahead proves nothing: whoever uses these offsets gets one
        more round of checks to commit by the new time.
        """
        group_id = group.group_id
        if group_id not in self._groups:
            return not self._pending.places(group_id)
        if not self._clock_is_steady(turn):
            return False
        retention_ms = self._settings().offsets_retention_ms
        for topic, partition, value in list(self._values(group_id)):
            if group.subscribes_to(topic) or self._pending.holds(group_id, topic, partition):
                continue
            if _is_expired(turn, group, value, retention_ms):
                turn.write(OffsetCommit(group_id, topic, partition, None))
        return group_id not in self._groups and not self._pending.places(group_id)

    def _see_clocks(self, turn: Turn[Stored]) -> None:
        """Before the first check there is nothing to compare the clocks with but this."""
        if self._skew_ms is None:
            self._skew_ms = turn.now_ms - turn.monotonic_ms

    def _clock_is_steady(self, turn: Turn[Stored]) -> bool:
        skew_ms = turn.now_ms - turn.monotonic_ms
        if self._skew_ms is not None and skew_ms > self._skew_ms + _CLOCK_JUMP_MS:
            wait_ms = self._settings().offsets_retention_check_interval_ms
            self._expires_from_ms = turn.monotonic_ms + wait_ms
        self._skew_ms = skew_ms
        return turn.monotonic_ms >= self._expires_from_ms

    def topics_deleted(self, turn: Turn[Stored], topics: Iterable[Topic]) -> None:
        """Forget the offsets in topics that are gone (not those in a new topic of that name)."""
        for topic in topics:
            for group_id in sorted(self._groups_by_topic.get(topic.name, ())):
                for partition, value in list(self._groups[group_id][topic.name].items()):
                    if value.topic_id in (NO_TOPIC_ID, topic.id_bytes):
                        turn.write(OffsetCommit(group_id, topic.name, partition, None))
            for group_id, partition in self._pending.in_topic(topic.name, topic.id_bytes):
                turn.write(OffsetCommit(group_id, topic.name, partition, None))

    def forget_replaced_topics(self, turn: Turn[Stored]) -> None:
        """Forget the offsets in topics that have given their name to another meanwhile.

        For what was deleted while nobody was in office here. Where there is no topic of the
        name at all, the offsets may stay until they expire: they lead nobody astray. So may those
        beside an offset that is pending, for that may be one in the new topic.
        """
        for name, groups in list(self._groups_by_topic.items()):
            topic = turn.image.topics.get(name)
            if topic is None:
                continue
            for group_id in sorted(groups):
                for partition, value in list(self._groups[group_id][name].items()):
                    if value.topic_id in (NO_TOPIC_ID, topic.id_bytes):
                        continue
                    if not self._pending.holds(group_id, name, partition):
                        turn.write(OffsetCommit(group_id, name, partition, None))

    def _values(self, group_id: str) -> Iterator[tuple[str, int, OffsetValue]]:
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, value in partitions.items():
                yield topic, partition, value


def _records(
    ask: Commit | TxnCommit, codes: Iterable[ErrorCode], now_ms: int, expires_ms: int
) -> Iterator[OffsetCommit]:
    for partition, code in zip(ask.partitions, codes, strict=True):
        if code is ErrorCode.none:
            value = _value(partition, now_ms, expires_ms)
            yield OffsetCommit(ask.group_id, partition.topic, partition.partition, value)


def _value(partition: CommitPartition, now_ms: int, expires_ms: int) -> OffsetValue:
    return OffsetValue(
        offset=partition.offset,
        leader_epoch=partition.leader_epoch,
        metadata=partition.metadata,
        commit_timestamp=now_ms,
        expire_timestamp=expires_ms,
        topic_id=partition.topic_id,
    )


def _committed(value: OffsetValue) -> CommittedOffset:
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        topic_id=value.topic_id,
    )


def _is_expired(turn: Turn[Stored], group: Group, value: OffsetValue, retention_ms: int) -> bool:
    unused_since_ms = group.offsets_unused_since_ms(value.commit_timestamp)
    if unused_since_ms is None:
        return False
    if value.expire_timestamp != NO_TIMESTAMP:
        return turn.now_ms >= value.expire_timestamp
    return turn.now_ms - unused_since_ms >= retention_ms


def _java_length(text: str) -> int:
    """`offset.metadata.max.bytes` bounds what Java counts: units of UTF-16, not bytes."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)
