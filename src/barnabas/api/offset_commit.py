"""OffsetCommit: v2-10

Behaviour: one result for each partition. Topics and partitions that do not exist are refused
here; what the group refuses, it refuses for all others together.

Version notes: v2 to v4 may say how long to keep the offsets. v6 leader epochs. v7 static members.
v8 flexible. v9 member epochs: errors of consumer groups, and GROUP_ID_NOT_FOUND. v10 topic ids.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one
from barnabas.api.typed import NO_THROTTLE, i32, milliseconds
from barnabas.cluster.image import Topic
from barnabas.coordinator.group.asks import Commit, CommitPartition
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.shapes.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)

_EPOCHS_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 10


class _Asked(NamedTuple):
    """A topic of the request, and for each of its partitions the error it has already."""

    topic: OffsetCommitRequestTopic
    known: Topic | None
    errors: tuple[ErrorCode, ...]

    def committed(self) -> Iterator[tuple[Topic, OffsetCommitRequestPartition]]:
        """What the group is asked to write down."""
        if self.known is None:
            return
        for partition, error in zip(self.topic.partitions, self.errors, strict=True):
            if error is ErrorCode.none:
                yield self.known, partition


def handle(call: Call, request: OffsetCommitRequest) -> Eventually[OffsetCommitResponse]:
    """One result for each partition, in the order of the request."""
    topics = [_looked_up(call, each) for each in request.topics]
    partitions = tuple(_partition(*each) for asked in topics for each in asked.committed())
    if not partitions:
        return _answer(topics, [])

    def commit() -> Answer[list[ErrorCode]]:
        return call.services.groups.commit(_ask(call, request, partitions))

    def refused(error: KafkaError) -> OffsetCommitResponse:
        return _answer(topics, [error.code] * len(partitions))

    return answer_one(commit, lambda codes: _answer(topics, codes), refused)


def _looked_up(call: Call, asked: OffsetCommitRequestTopic) -> _Asked:
    image = call.services.cluster.image
    if call.version >= _TOPIC_IDS_FROM:
        known = image.topics_by_id.get(asked.topic_id.bytes) if asked.topic_id else None
        missing = ErrorCode.unknown_topic_id
    else:
        known = image.topics.get(asked.name or "")
        missing = ErrorCode.unknown_topic_or_partition
    if known is None:
        return _Asked(asked, None, (missing,) * len(asked.partitions))
    there = range(len(known.partitions))
    return _Asked(
        asked,
        known,
        tuple(
            ErrorCode.none
            if each.partition_index in there
            else ErrorCode.unknown_topic_or_partition
            for each in asked.partitions
        ),
    )


def _partition(topic: Topic, asked: OffsetCommitRequestPartition) -> CommitPartition:
    return CommitPartition(
        topic=topic.name,
        topic_id=topic.id_bytes,
        partition=asked.partition_index,
        offset=asked.committed_offset,
        leader_epoch=asked.committed_leader_epoch,
        metadata=asked.committed_metadata or "",
    )


def _ask(
    call: Call, request: OffsetCommitRequest, partitions: tuple[CommitPartition, ...]
) -> Commit:
    return Commit(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        knows_epochs=call.version >= _EPOCHS_FROM,
        partitions=partitions,
        retention_ms=milliseconds(request.retention_time),
    )


def _answer(topics: list[_Asked], codes: list[ErrorCode]) -> OffsetCommitResponse:
    """`codes` are those of the partitions that the group was asked about."""
    told = iter(codes)
    return OffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetCommitResponseTopic(
                name=asked.topic.name,
                topic_id=asked.topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=i32(partition.partition_index),
                        error_code=next(told) if error is ErrorCode.none else error,
                    )
                    for partition, error in zip(asked.topic.partitions, asked.errors, strict=True)
                ),
            )
            for asked in topics
            if asked.topic.partitions or asked.known is None
        ),
    )
