"""What a leader sends to followers that are not in sync, held down to a rate (KIP-73)."""

import asyncio

from barnabas.api.context import Services
from barnabas.replica.partition import Partition
from barnabas.replica.throttle import is_listed


def held_back_s(services: Services, partition: Partition, follower: int) -> float:
    """For how long this follower gets nothing of the partition; 0: it does."""
    in_sync = partition.in_sync
    if in_sync is None or follower in in_sync.state.isr or not _is_throttled(services, partition):
        return 0.0
    return services.sent.wait_s(_rate(services), asyncio.get_running_loop().time())


def note_sent(services: Services, partition: Partition, size: int) -> None:
    """A follower gets so many bytes."""
    if size and _is_throttled(services, partition):
        services.sent.record(size, _rate(services), asyncio.get_running_loop().time())


def _is_throttled(services: Services, partition: Partition) -> bool:
    listed = partition.log.config.leader_replication_throttled_replicas
    return bool(listed) and is_listed(listed, partition.log.partition.partition, services.node_id)


def _rate(services: Services) -> int:
    return services.cluster.image.config.cluster.leader_throttled_rate
