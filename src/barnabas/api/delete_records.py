"""DeleteRecords: v0-2

Behaviour: the log of each partition begins at the asked offset from now on (-1: at the high
watermark), and that is on disk before the answer is sent; whole segments below it go later. An
offset below the present start changes nothing. Records of a topic that is only compacted can
not be deleted this way. When a partition is named twice, the last offset counts.

Version notes: v2 flexible.
"""

import logging
from typing import Final

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from barnabas.api.context import Call, hosted_partition
from barnabas.api.typed import NO_THROTTLE, TopicName, i32, i64
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import INTERNAL_TOPICS

logger = logging.getLogger(__name__)

_HIGH_WATERMARK: Final = -1


async def handle(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """One result for each different partition."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        for each in topic.partitions:
            offsets[each.partition_index] = each.offset
    topics = [
        DeleteRecordsTopicResult(
            name=TopicName(name),
            partitions=tuple(_delete(call, name, *each) for each in found.items()),
        )
        for name, found in wanted.items()
    ]
    if any(each.error_code is ErrorCode.none for topic in topics for each in topic.partitions):
        try:
            await call.services.work.run(call.services.replicas.store.checkpoint_job())
        except OSError as error:
            logger.error("where the logs begin could not be stored: %s", error)
            topics = [_not_stored(topic) for topic in topics]
    return DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def _not_stored(topic: DeleteRecordsTopicResult) -> DeleteRecordsTopicResult:
    """What was done may be undone by a crash: the client must not count on it."""
    partitions = tuple(
        _result(each.partition_index, -1, ErrorCode.kafka_storage_error)
        if each.error_code is ErrorCode.none
        else each
        for each in topic.partitions
    )
    return DeleteRecordsTopicResult(name=topic.name, partitions=partitions)


def _delete(call: Call, name: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        start = _advance(call, name, index, offset)
    except KafkaError as error:
        return _result(index, -1, error.code)
    return _result(index, start, ErrorCode.none)


def _advance(call: Call, name: str, index: int, offset: int) -> int:
    """Where the log begins afterwards."""
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.invalid_topic_exception)
    partition = hosted_partition(call.services.replicas.by_name.get(name), index)
    log = partition.log
    log.require_healthy()
    if log.config.compacts and not log.config.deletes:
        raise KafkaError(ErrorCode.policy_violation)
    if offset == _HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.offset_out_of_range)
    log.advance_start(offset)
    return log.start_offset


def _result(index: int, low_watermark: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=i32(index), low_watermark=i64(low_watermark), error_code=error
    )
