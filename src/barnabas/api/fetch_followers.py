"""What is different when a follower fetches: it may read everything, and what it asks for tells
what it has. That counts only if it is a follower of this very leader epoch, and its log matches.
"""

import asyncio

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.partition import Partition
from barnabas.wire.fetch import FetchPartition, FetchRequest


def check_follower(partition: Partition, part: FetchPartition, request: FetchRequest) -> None:
    """Raise unless it follows this partition, in this leader epoch, and says so (KIP-320)."""
    if not partition.has_follower(request.replica_id):
        raise KafkaError(ErrorCode.not_leader_or_follower)
    if part.current_leader_epoch != partition.leader_epoch:
        raise KafkaError(ErrorCode.fenced_leader_epoch)


def diverging_of_follower(partition: Partition, part: FetchPartition) -> tuple[int, int] | None:
    """Up to where the follower's log may match this one, unless it matches as a whole.

    The answer for an epoch that is unknown here is the largest one below it, and where that ended
    (KIP-279). A log without any epoch is empty, and matches where it begins.
    """
    log, asked = partition.log, part.last_fetched_epoch
    if asked > log.epochs.latest or (asked < 0 and part.fetch_offset > log.end_offset):
        return max(log.epochs.latest, 0), log.end_offset
    if asked < 0:
        return None
    epoch, end = log.epochs.end_offset(asked, log.end_offset)
    return (epoch, end) if epoch < asked or end < part.fetch_offset else None


def note_follower(partition: Partition, part: FetchPartition, request: FetchRequest) -> None:
    """What it asks for tells what it has."""
    now_s = asyncio.get_running_loop().time()
    broker, epoch = request.replica_id, request.replica_epoch
    partition.record_fetch(broker, epoch, part.fetch_offset, now_s, part.log_start_offset)


def is_up_to_date(
    partition: Partition, part: FetchPartition, request: FetchRequest, now_s: float
) -> bool:
    """Whether the follower has, and knows, everything, so that there is nothing to tell it and
    nothing but its being there to note: so it is with most partitions most of the time.

    Everything that the long way would check is checked here: whoever does not pass takes that.
    """
    log, in_sync = partition.log, partition.in_sync
    return (
        in_sync is not None
        and partition.leads
        and part.current_leader_epoch == partition.leader_epoch
        and part.fetch_offset == log.end_offset
        and partition.high_watermark <= part.high_watermark <= log.end_offset
        and part.log_start_offset >= log.start_offset
        and diverging_of_follower(partition, part) is None
        and in_sync.is_caught_up(
            request.replica_id,
            request.replica_epoch,
            part.log_start_offset,
            log.end_offset,
            now_s,
        )
    )


def has_news_for(part: FetchPartition, partition: Partition) -> bool:
    """Whether more of what the follower has is committed, or deleted, than it knows."""
    return (
        part.high_watermark < min(partition.high_watermark, part.fetch_offset)
        or part.log_start_offset < partition.log.start_offset
    )
