"""Committed offsets: what is kept, for whom, and until when."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest

from barnabas.cluster.image import Image, PartitionState, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.group_settings import GroupSettings
from barnabas.config.topic_config import TopicConfig
from barnabas.coordinator.group.asks import Commit, CommitPartition, CommittedOffset, Listing
from barnabas.coordinator.group.offsets.offsets import Offsets
from barnabas.coordinator.runtime.turn import Turn
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored import OffsetCommit, OffsetValue, Stored

DAY_MS = 24 * 3600 * 1000
NOW_MS = 1_700_000_000_000
IMAGE = Image(cluster_id="c", controller_id=1, brokers={}, config=BrokerConfig({"node.id": "1"}))


@dataclass
class Members:
    """A group, as far as its offsets are concerned."""

    group_id: str = "g"
    refuses: ErrorCode | None = None
    topics: set[str] = field(default_factory=set)
    unused_since_ms: Callable[[int], int | None] = lambda committed_ms: committed_ms
    asked: list[tuple[str, str | None, int, bool]] = field(default_factory=list)

    @property
    def listing(self) -> Listing:
        return Listing(group_id=self.group_id, protocol_type="", state="Empty", kind="classic")

    @property
    def is_empty(self) -> bool:
        return True

    def check_commit(
        self,
        turn: Turn[Stored],
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        knows_epochs: bool,
        partitions: Iterable[tuple[bytes, int]],
    ) -> None:
        self.asked.append((member_id, instance_id, generation, knows_epochs))
        self._check()

    def check_txn_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        partitions: Iterable[tuple[bytes, int]],
    ) -> None:
        self.asked.append((member_id, instance_id, generation, False))
        self._check()

    def check_fetch(self, member_id: str, member_epoch: int) -> None:
        self._check()

    def check_delete(self) -> None:
        self._check()

    def check_offset_delete(self) -> None:
        self._check()

    def _check(self) -> None:
        if self.refuses is not None:
            raise KafkaError(self.refuses)

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics

    def offsets_unused_since_ms(self, committed_ms: int) -> int | None:
        return self.unused_since_ms(committed_ms)

    def tombstones(self) -> Iterable[Stored]:
        return ()


class Desk:
    """Offsets, the clocks, and every record that was written."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.offsets = Offsets(lambda: self.settings)
        self.now_ms, self.monotonic_ms = NOW_MS, 5_000
        self.records: list[OffsetCommit] = []
        self.image = IMAGE

    def turn(self) -> Turn[Stored]:
        return Turn(self.now_ms, self.monotonic_ms, self.image, self._apply)

    def _apply(self, record: Stored) -> None:
        assert isinstance(record, OffsetCommit)
        self.records.append(record)
        self.offsets.apply(record)

    def pass_ms(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.monotonic_ms += duration_ms

    def commit(self, *partitions: CommitPartition, group: Members, **more: int) -> list[ErrorCode]:
        return self.offsets.commit(self.turn(), group, ask(*partitions, group=group, **more))


def ask(*partitions: CommitPartition, group: Members, retention_ms: int = -1) -> Commit:
    return Commit(
        group_id=group.group_id,
        member_id="m",
        instance_id="i",
        generation=3,
        knows_epochs=True,
        partitions=partitions,
        retention_ms=retention_ms,
    )


def at(
    topic: str, partition: int, offset: int, metadata: str = "", topic_id: bytes = bytes(16)
) -> CommitPartition:
    return CommitPartition(
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        offset=offset,
        leader_epoch=7,
        metadata=metadata,
    )


def a_topic(name: str, number: int) -> Topic:
    partitions = (PartitionState(1, 0, (1,), (1,)),)
    return Topic(name, uuid.UUID(int=number), partitions, {}, TopicConfig())


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_commit_is_found_again_and_replaced_by_the_next(desk: Desk) -> None:
    group = Members()
    assert desk.commit(at("t", 0, 5, "note"), at("t", 1, 6), group=group) == [ErrorCode.none] * 2
    assert desk.offsets.fetch("g", "t", 0) == CommittedOffset(
        offset=5, leader_epoch=7, metadata="note"
    )
    desk.commit(at("t", 0, 4), group=group)
    assert {key: value.offset for key, value in desk.offsets.all_of("g").items()} == {
        ("t", 0): 4,
        ("t", 1): 6,
    }
    assert desk.offsets.fetch("g", "t", 2) is None
    assert desk.offsets.fetch("g", "other", 0) is None
    assert desk.offsets.all_of("other") == {}
    assert list(desk.offsets.groups()) == ["g"]


def test_the_group_is_asked_first_and_its_refusal_changes_nothing(desk: Desk) -> None:
    group = Members(refuses=ErrorCode.unknown_member_id)
    with pytest.raises(KafkaError) as refused:
        desk.commit(at("t", 0, 5), group=group)
    assert refused.value.code is ErrorCode.unknown_member_id
    assert group.asked == [("m", "i", 3, True)]
    assert desk.records == []


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("", ErrorCode.none),
        ("x" * 10, ErrorCode.none),
        ("x" * 11, ErrorCode.offset_metadata_too_large),
        ("é" * 10, ErrorCode.none),
        ("😀" * 5, ErrorCode.none),
        ("😀" * 5 + "x", ErrorCode.offset_metadata_too_large),
    ],
)
def test_metadata_is_measured_as_java_does(metadata: str, code: ErrorCode) -> None:
    desk = Desk(GroupSettings(offset_metadata_max_bytes=10))
    codes = desk.commit(at("t", 0, 5, metadata), at("t", 1, 6), group=Members())
    assert codes == [code, ErrorCode.none]
    found = desk.offsets.fetch("g", "t", 0)
    assert (found is None) == (code is not ErrorCode.none)
    assert desk.offsets.fetch("g", "t", 1) is not None


def test_what_is_written_holds_times_and_topic(desk: Desk) -> None:
    desk.commit(at("t", 0, 5, topic_id=b"i" * 16), group=Members(), retention_ms=1_000)
    assert desk.records == [
        OffsetCommit(
            "g",
            "t",
            0,
            OffsetValue(
                offset=5,
                leader_epoch=7,
                commit_timestamp=NOW_MS,
                expire_timestamp=NOW_MS + 1_000,
                topic_id=b"i" * 16,
            ),
        )
    ]
    found = desk.offsets.fetch("g", "t", 0)
    assert found is not None
    assert found.topic_id == b"i" * 16


def test_single_offsets_are_deleted_unless_their_topic_is_read(desk: Desk) -> None:
    group = Members(topics={"read"})
    desk.commit(at("t", 0, 1), at("t", 1, 1), at("read", 0, 1), group=group)
    codes = desk.offsets.delete(desk.turn(), group, [("t", 0), ("read", 0), ("t", 9)])
    assert codes == [ErrorCode.none, ErrorCode.group_subscribed_to_topic, ErrorCode.none]
    assert set(desk.offsets.all_of("g")) == {("t", 1), ("read", 0)}
    tombstones = [each for each in desk.records if each.value is None]
    assert tombstones == [OffsetCommit("g", "t", 0, None)], "nothing for what was not there"


def test_a_group_that_refuses_keeps_its_offsets(desk: Desk) -> None:
    desk.commit(at("t", 0, 1), group=Members())
    with pytest.raises(KafkaError):
        desk.offsets.delete(desk.turn(), Members(refuses=ErrorCode.non_empty_group), [("t", 0)])
    assert desk.offsets.fetch("g", "t", 0) is not None


def test_a_deleted_group_leaves_no_offset_and_others_theirs(desk: Desk) -> None:
    desk.commit(at("t", 0, 1), at("u", 1, 1), group=Members())
    desk.commit(at("t", 0, 2), group=Members("h"))
    desk.offsets.delete_all(desk.turn(), "g")
    desk.offsets.delete_all(desk.turn(), "never")
    assert desk.offsets.all_of("g") == {}
    assert list(desk.offsets.groups()) == ["h"]


def test_offsets_of_deleted_topics_go_in_every_group(desk: Desk) -> None:
    old, new = a_topic("t", 1), a_topic("t", 2)
    desk.commit(at("t", 0, 1, topic_id=old.id_bytes), at("u", 0, 1), group=Members())
    desk.commit(at("t", 0, 2), group=Members("h"))
    desk.commit(at("t", 0, 3, topic_id=new.id_bytes), group=Members("i"))
    desk.offsets.topics_deleted(desk.turn(), [old, a_topic("never", 3)])
    assert set(desk.offsets.all_of("g")) == {("u", 0)}
    assert desk.offsets.all_of("h") == {}
    assert set(desk.offsets.all_of("i")) == {("t", 0)}, "of a new topic with that name"


def test_offsets_of_replaced_topics_are_forgotten_after_loading(desk: Desk) -> None:
    old, new, other = a_topic("t", 1), a_topic("t", 2), a_topic("gone", 3)
    desk.commit(at("t", 0, 1, topic_id=old.id_bytes), at("t", 1, 1), group=Members())
    desk.commit(at("t", 0, 1, topic_id=new.id_bytes), group=Members("h"))
    desk.commit(at("gone", 0, 1, topic_id=other.id_bytes), group=Members("h"))
    desk.image = IMAGE.with_topics([new])
    desk.offsets.forget_replaced_topics(desk.turn())
    assert set(desk.offsets.all_of("g")) == {("t", 1)}, "of the topic nothing more is known"
    assert set(desk.offsets.all_of("h")) == {("t", 0), ("gone", 0)}


def test_an_offset_expires_when_it_was_unused_for_the_retention_time(desk: Desk) -> None:
    group = Members()
    desk.commit(at("t", 0, 1), group=group)
    desk.pass_ms(7 * DAY_MS - 1)
    assert not desk.offsets.expire(desk.turn(), group)
    desk.commit(at("t", 1, 1), group=group)
    desk.pass_ms(1)
    assert not desk.offsets.expire(desk.turn(), group)
    assert set(desk.offsets.all_of("g")) == {("t", 1)}
    desk.pass_ms(7 * DAY_MS)
    assert desk.offsets.expire(desk.turn(), group)
    assert desk.offsets.all_of("g") == {}
    assert desk.offsets.expire(desk.turn(), group), "there is nothing left"


def test_the_retention_time_can_change(desk: Desk) -> None:
    group = Members()
    desk.commit(at("t", 0, 1), group=group)
    desk.pass_ms(5_000)
    desk.settings = replace(desk.settings, offsets_retention_ms=5_000)
    assert desk.offsets.expire(desk.turn(), group)


def test_offsets_in_use_never_expire(desk: Desk) -> None:
    reading = Members("reading", topics={"t"})
    busy = Members("busy", unused_since_ms=lambda _: None)
    emptied_ms = NOW_MS + 6 * DAY_MS
    emptied = Members("emptied", unused_since_ms=lambda _: emptied_ms)
    for group in (reading, busy, emptied):
        desk.commit(at("t", 0, 1), group=group)
        desk.commit(at("t", 1, 1), group=group, retention_ms=1_000)
    desk.pass_ms(12 * DAY_MS)
    assert not desk.offsets.expire(desk.turn(), reading)
    assert not desk.offsets.expire(desk.turn(), busy)
    assert not desk.offsets.expire(desk.turn(), emptied)
    assert len(desk.offsets.all_of("reading")) == len(desk.offsets.all_of("busy")) == 2
    assert set(desk.offsets.all_of("emptied")) == {("t", 0)}, "its own retention time is over"


@pytest.mark.parametrize("retention_ms", [0, 1_000, -2, 10**17])
def test_a_commit_may_bring_its_own_retention_time(desk: Desk, retention_ms: int) -> None:
    group = Members()
    desk.commit(at("t", 0, 1), group=group, retention_ms=retention_ms)
    desk.pass_ms(1_000)
    assert desk.offsets.expire(desk.turn(), group) == (retention_ms <= 1_000)


def test_a_clock_that_jumps_ahead_expires_nothing_that_is_used(desk: Desk) -> None:
    group = Members()
    desk.commit(at("t", 0, 1), at("t", 1, 1), group=group)
    desk.now_ms += 30 * DAY_MS
    assert not desk.offsets.expire(desk.turn(), group)
    desk.pass_ms(1_000)
    desk.commit(at("t", 0, 2), group=group)
    desk.pass_ms(desk.settings.offsets_retention_check_interval_ms - 1_001)
    assert not desk.offsets.expire(desk.turn(), group)
    assert len(desk.offsets.all_of("g")) == 2
    desk.pass_ms(1)
    assert not desk.offsets.expire(desk.turn(), group)
    assert set(desk.offsets.all_of("g")) == {("t", 0)}, "nobody has used the other since"


def test_a_clock_that_jumps_back_expires_nothing(desk: Desk) -> None:
    group = Members()
    desk.commit(at("t", 0, 1), group=group)
    desk.now_ms -= 30 * DAY_MS
    assert not desk.offsets.expire(desk.turn(), group)
    desk.now_ms += 30 * DAY_MS
    assert not desk.offsets.expire(desk.turn(), group)


def test_forgetting_what_was_never_known_is_no_mistake(desk: Desk) -> None:
    desk.offsets.apply(OffsetCommit("g", "t", 0, None))
    desk.commit(at("t", 0, 1), group=Members())
    desk.offsets.apply(OffsetCommit("g", "t", 1, None))
    desk.offsets.apply(OffsetCommit("g", "u", 0, None))
    assert set(desk.offsets.all_of("g")) == {("t", 0)}
