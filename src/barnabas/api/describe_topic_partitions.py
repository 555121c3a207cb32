"""DescribeTopicPartitions: v0

Behaviour: topics in alphabetical order, each once, with at most as many partitions in one answer
as the request and `max.request.partition.size.limit` allow; a cursor says where the next
request goes on. No topics means all, and then missing ones are passed over in silence.

Version notes: v0 only.
"""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from kio.schema.describe_topic_partitions.v0.request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

from barnabas.api.context import Call
from barnabas.api.shared import OPERATIONS_NOT_ASKED, TOPIC_OPERATIONS, leaderships
from barnabas.api.typed import NO_THROTTLE, BrokerId, TopicName, i32
from barnabas.cluster.image import Topic
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import INTERNAL_TOPICS, check_topic_name

_Topic = DescribeTopicPartitionsResponseTopic


class _Place(NamedTuple):
    """A partition of a topic: where a page begins, or the next one does."""

    name: str
    partition: int


def handle(call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The next page."""
    config = call.services.cluster.image.config
    cursor = request.cursor
    asked: set[str] = {each.name for each in request.topics}
    names = asked or set(call.services.cluster.image.topics)
    if cursor is None:
        start = _Place("", 0)
    elif cursor.partition_index < 0 or (asked and cursor.topic_name not in asked):
        return _refused(request.topics)
    else:
        start = _Place(cursor.topic_name, cursor.partition_index)
    limit = min(config.max_request_partition_size_limit, request.response_partition_limit)
    wanted = sorted(name for name in names if name >= start.name)
    return _describe(call, wanted, start, max(limit, 1))


def _describe(
    call: Call, names: Iterable[str], start: _Place, room: int
) -> DescribeTopicPartitionsResponse:
    """`names` in order, from `start` on, until there is no room for another partition."""
    known = call.services.cluster.image.topics
    topics: list[_Topic] = []
    for name in names:
        if room == 0:
            return _page(topics, _Place(name, 0))
        topic = known.get(name)
        if topic is None:
            topics.append(_missing(name))
            continue
        first = start.partition if name == start.name else 0
        partitions = _partitions(call, topic, first, room)
        topics.append(_found(topic, partitions))
        room -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            return _page(topics, _Place(name, first + len(partitions)))
    return _page(topics, None)


def _page(topics: Iterable[_Topic], rest: _Place | None) -> DescribeTopicPartitionsResponse:
    cursor = None
    if rest is not None:
        cursor = Cursor(topic_name=TopicName(rest.name), partition_index=i32(rest.partition))
    return DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=cursor
    )


def _refused(topics: Iterable[TopicRequest]) -> DescribeTopicPartitionsResponse:
    names = dict.fromkeys(each.name for each in topics)
    return _page((_without_partitions(ErrorCode.invalid_request, name) for name in names), None)


def _missing(name: str) -> _Topic:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return _without_partitions(error.code, name, TOPIC_OPERATIONS)
    return _without_partitions(ErrorCode.unknown_topic_or_partition, name, TOPIC_OPERATIONS)


def _without_partitions(
    error: ErrorCode, name: str, operations: int = OPERATIONS_NOT_ASKED
) -> _Topic:
    return _Topic(
        error_code=error,
        name=TopicName(name),
        topic_id=None,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=i32(operations),
    )


def _found(
    topic: Topic, partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
) -> _Topic:
    return _Topic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=i32(TOPIC_OPERATIONS),
    )


def _partitions(
    call: Call, topic: Topic, start: int, room: int
) -> tuple[DescribeTopicPartitionsResponsePartition, ...]:
    rows = enumerate(zip(topic.partitions, leaderships(call, topic), strict=True))
    return tuple(
        DescribeTopicPartitionsResponsePartition(
            error_code=error,
            partition_index=i32(index),
            leader_id=BrokerId(leader),
            leader_epoch=i32(state.leader_epoch),
            replica_nodes=tuple(map(BrokerId, state.replicas)),
            isr_nodes=tuple(map(BrokerId, state.isr)),
            eligible_leader_replicas=tuple(map(BrokerId, state.eligible)),
            last_known_elr=(),
            offline_replicas=tuple(map(BrokerId, offline)),
        )
        for index, (state, (error, leader, offline)) in islice(rows, start, start + room)
    )
