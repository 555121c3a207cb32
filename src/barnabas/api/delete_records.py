"""DeleteRecords: v0-2

Behaviour: the log of each partition begins at the asked offset from now on (-1: at the high
watermark), and that is on disk before the answer is sent; whole segments below it go later. The
answer waits until the logs of all replicas whose brokers are there begin there, too; when that
takes longer than the client waits, it is REQUEST_TIMED_OUT, with the least of these starts. An
offset below the present start changes nothing. Records of a topic that is only compacted can
not be deleted this way. When a partition is named twice, the last offset counts.

Version notes: v2 flexible.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from barnabas.api.context import Call, hosted_partition
from barnabas.api.typed import NO_THROTTLE, TopicName, i32, i64, milliseconds
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import INTERNAL_TOPICS
from barnabas.replica.partition import Partition

logger = logging.getLogger(__name__)

_HIGH_WATERMARK: Final = -1
_LOOK_S: Final = 0.2
"""A replica that is waited for may also have gone for good, of which no fetch tells."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A partition whose log begins at `offset` or later by now, on this broker."""

    partition: Partition
    offset: int


_Outcome = _Begun | KafkaError


async def handle(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """One result for each different partition."""
    until_s = asyncio.get_running_loop().time() + milliseconds(request.timeout) / 1000
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        for each in topic.partitions:
            offsets[each.partition_index] = each.offset
    begun = {
        name: {index: _begin(call, name, index, offset) for index, offset in found.items()}
        for name, found in wanted.items()
    }
    begun = await _stored(call, begun)
    topics = [
        DeleteRecordsTopicResult(
            name=TopicName(name),
            partitions=tuple(
                [await _result(call, index, each, until_s) for index, each in found.items()]
            ),
        )
        for name, found in begun.items()
    ]
    return DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


async def _stored(
    call: Call, begun: dict[str, dict[int, _Outcome]]
) -> dict[str, dict[int, _Outcome]]:
    """The same once it is on disk. What is not may be undone by a crash: the client must not count
    on it."""
    if not any(isinstance(each, _Begun) for found in begun.values() for each in found.values()):
        return begun
    try:
        await call.services.work.run(call.services.replicas.store.checkpoint_job())
    except OSError as error:
        logger.error("where the logs begin could not be stored: %s", error)
        failed = KafkaError(ErrorCode.kafka_storage_error)
        return {
            name: {
                index: failed if isinstance(each, _Begun) else each for index, each in found.items()
            }
            for name, found in begun.items()
        }
    return begun


def _begin(call: Call, name: str, index: int, offset: int) -> _Outcome:
    try:
        return _advance(call, name, index, offset)
    except KafkaError as error:
        return error


def _advance(call: Call, name: str, index: int, offset: int) -> _Begun:
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
    partition.delete_before(offset)
    return _Begun(partition, offset)


async def _result(
    call: Call, index: int, begun: _Outcome, until_s: float
) -> DeleteRecordsPartitionResult:
    """What to tell of a partition, once all replicas have deleted, or there is no time left."""
    if isinstance(begun, KafkaError):
        return _told(index, -1, begun.code)
    partition, cluster = begun.partition, call.services.cluster
    while (low := partition.low_watermark(cluster.image.brokers)) < begun.offset:
        left_s = until_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            return _told(index, low, ErrorCode.request_timed_out)
        await asyncio.wait([partition.trimmed()], timeout=min(left_s, _LOOK_S))
        if partition.log.failure is not None or not partition.leads:
            return _told(index, -1, ErrorCode.not_leader_or_follower)
    return _told(index, low, ErrorCode.none)


def _told(index: int, low_watermark: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=i32(index), low_watermark=i64(low_watermark), error_code=error
    )
