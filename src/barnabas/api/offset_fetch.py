"""OffsetFetch: v1-10

Behaviour: how far groups have got, in the partitions they are asked for or (null) in all that
have an offset. Where there is none it is -1, also in groups, topics and partitions that do not
exist. An offset that was committed for a deleted topic of the same name is none. Groups answer
once everything committed before is stored. Whoever requires stable offsets is not told those that
an open transaction may change.

Version notes: v1 has no error for the whole: each partition carries it. v2 has one, and null for
all. v5 leader epochs. v6 flexible. v7 `require_stable`. v8 many groups. v9 member epochs. v10 topic
ids: an unknown one is UNKNOWN_TOPIC_ID, and in an answer of all, topics without one are left out.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_all
from barnabas.api.typed import NO_THROTTLE, i32, i64
from barnabas.cluster.image import Image, Topic
from barnabas.coordinator.group.asks import CommittedOffset, FetchOffsets
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.shapes.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
)
from barnabas.wire.stored.offsets import NO_TOPIC_ID

_GROUP_ERRORS_FROM: Final = 2
_TOPIC_IDS_FROM: Final = 10
_NO_OFFSET: Final = CommittedOffset(offset=-1)

_Offsets = Mapping[tuple[str, int], CommittedOffset]


def handle(call: Call, request: OffsetFetchRequest) -> Eventually[OffsetFetchResponse]:
    """One answer for each group."""

    def told(answers: list[_Offsets | KafkaError]) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            throttle_time=NO_THROTTLE,
            groups=tuple(_group(call, *each) for each in zip(request.groups, answers, strict=True)),
        )

    return answer_all(
        (_question(call, each, request.require_stable) for each in request.groups), told
    )


def _question(
    call: Call, asked: OffsetFetchRequestGroup, require_stable: bool
) -> Callable[[], Answer[_Offsets]]:
    partitions = None
    if asked.topics is not None:
        partitions = tuple(
            (name, index)
            for topic in asked.topics
            if (name := _name(call, topic)) is not None
            for index in topic.partition_indexes
        )
    ask = FetchOffsets(
        group_id=asked.group_id,
        member_id=asked.member_id or "",
        member_epoch=asked.member_epoch,
        partitions=partitions,
        require_stable=require_stable,
    )
    return partial(call.services.groups.fetch_offsets, ask)


def _name(call: Call, asked: OffsetFetchRequestTopic) -> str | None:
    """The name of a topic, whether it exists or not; None for an unknown id."""
    if call.version < _TOPIC_IDS_FROM:
        return asked.name or ""
    if asked.topic_id is None:
        return None
    topic = call.services.cluster.image.topics_by_id.get(asked.topic_id.bytes)
    return None if topic is None else topic.name


def _group(
    call: Call, asked: OffsetFetchRequestGroup, answer: _Offsets | KafkaError
) -> OffsetFetchResponseGroup:
    if isinstance(answer, KafkaError):
        return _refused(call, asked, answer)
    if asked.topics is None:
        topics = tuple(_all_topics(call, answer))
    else:
        topics = tuple(_topic(call, each, answer) for each in asked.topics)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _refused(
    call: Call, asked: OffsetFetchRequestGroup, error: KafkaError
) -> OffsetFetchResponseGroup:
    if call.version >= _GROUP_ERRORS_FROM:
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=(), error_code=error.code)
    topics = tuple(_failed(each, error.code) for each in asked.topics or ())
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _failed(asked: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=tuple(_partition(each, _NO_OFFSET, error) for each in asked.partition_indexes),
    )


def _topic(
    call: Call, asked: OffsetFetchRequestTopic, offsets: _Offsets
) -> OffsetFetchResponseTopic:
    name = _name(call, asked)
    if name is None:
        return _failed(asked, ErrorCode.unknown_topic_id)
    image = call.services.cluster.image
    return OffsetFetchResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=tuple(
            _partition(index, _current(image, name, offsets.get((name, index))) or _NO_OFFSET)
            for index in asked.partition_indexes
        ),
    )


def _all_topics(call: Call, offsets: _Offsets) -> Iterable[OffsetFetchResponseTopic]:
    image = call.services.cluster.image
    by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
    for (name, index), offset in offsets.items():
        if _current(image, name, offset) is not None:
            by_topic.setdefault(name, []).append(_partition(index, offset))
    for name, partitions in by_topic.items():
        topic = image.topics.get(name)
        if topic is not None or call.version < _TOPIC_IDS_FROM:
            yield OffsetFetchResponseTopic(
                name=name,
                topic_id=None if topic is None else topic.id,
                partitions=tuple(partitions),
            )


def _current(image: Image, name: str, offset: CommittedOffset | None) -> CommittedOffset | None:
    """The offset, unless it belongs to a former topic of that name."""
    topic: Topic | None = image.topics.get(name)
    if offset is None or topic is None or not offset.is_stable:
        return offset
    return offset if offset.topic_id in (NO_TOPIC_ID, topic.id_bytes) else None


def _partition(
    index: int, offset: CommittedOffset, error: ErrorCode = ErrorCode.none
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=i32(index),
        committed_offset=i64(offset.offset),
        committed_leader_epoch=i32(offset.leader_epoch),
        metadata=offset.metadata,
        error_code=error if offset.is_stable else ErrorCode.unstable_offset_commit,
    )
