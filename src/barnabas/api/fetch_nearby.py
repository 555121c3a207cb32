"""Consumers that read close by (KIP-392): who may read at a follower, and who is sent to one.

With `replica.selector.class` a leader tells a consumer of another rack which replica to read
instead. Whoever comes to a follower is served there, sent or not: consumers go back to the leader
by themselves, after an error or a while.
"""

from typing import Final

from barnabas.api.context import Services, hosted_partition, hosted_replica
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.nearest import nearest_replica
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic
from barnabas.wire.fetch import FetchPartition, FetchPartitionResult, FetchRequest

RACK_FROM: Final = 11
"""The version from which on consumers know of reading elsewhere."""


def readable(
    version: int, request: FetchRequest, hosted: HostedTopic | None, index: int
) -> Partition:
    """The partition, if whoever asks may read it here, or the error that he must get."""
    if request.replica_id >= 0 or version < RACK_FROM:
        return hosted_partition(hosted, index)
    partition = hosted_replica(hosted, index)
    if not partition.serves_readers:
        raise KafkaError(ErrorCode.not_leader_or_follower)
    return partition


def check_has(follower: Partition, offset: int) -> None:
    """Raise if a follower does not have `offset` yet. OFFSET_NOT_AVAILABLE: it can not tell what
    will be from what never was, and whoever was told "out of range" might begin elsewhere."""
    if offset > follower.log.end_offset:
        raise KafkaError(ErrorCode.offset_not_available)


def sent_elsewhere(
    services: Services, partition: Partition, part: FetchPartition, request: FetchRequest
) -> FetchPartitionResult | None:
    """The answer for a consumer that had better read at another replica; None: it reads here."""
    image, in_sync = services.cluster.image, partition.in_sync
    if not request.rack_id or request.replica_id >= 0 or in_sync is None:
        return None
    if not image.config.cluster.reads_nearby:
        return None
    nearest = nearest_replica(in_sync, request.rack_id, part.fetch_offset, image.brokers)
    if nearest is None:
        return None
    return FetchPartitionResult(
        part.index,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.start_offset,
        preferred_read_replica=nearest,
        records=b"",
    )
