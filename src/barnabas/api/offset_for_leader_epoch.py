"""OffsetForLeaderEpoch: v2-4

Behaviour: the largest epoch up to the asked one that has records, and where it ended: so a
client or a follower finds out whether its log and ours have parted. The present epoch ends at
the log's end. -1 for an epoch that is not known.

Version notes: v3 replica id. v4 flexible.
"""

from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from barnabas.api.context import Call, check_leader_epoch, hosted_partition
from barnabas.api.typed import NO_THROTTLE, i32, i64
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic


def handle(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """One answer for each partition, as asked."""
    hosted = call.services.replicas.by_name
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _answer(hosted.get(topic.topic), each) for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _answer(hosted: HostedTopic | None, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = hosted_partition(hosted, asked.partition)
        check_leader_epoch(partition, asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    epoch, end = _end_of(partition, asked.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.none,
        partition=asked.partition,
        leader_epoch=i32(epoch),
        end_offset=i64(end),
    )


def _end_of(partition: Partition, epoch: int) -> tuple[int, int]:
    log = partition.log
    newest = log.epochs.latest
    if not 0 <= epoch <= partition.leader_epoch or epoch < newest:
        return log.epochs.end_offset(epoch, log.end_offset)
    # Nothing was written after that epoch, or even in it: a client that learned of the epoch from
    # an idle partition has seen nothing that is not here.
    return (newest if newest >= 0 and epoch < partition.leader_epoch else epoch), log.end_offset
