"""Writes the ends of transactions into the partitions that this broker leads."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from barnabas.coordinator.group.service import GroupCoordinator
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import CONSUMER_OFFSETS, TopicPartition
from barnabas.model.transactions import Marker
from barnabas.ports.clock import Clock
from barnabas.replica.service import Replicas

_NOT_READY: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
    }
)
"""Of a group coordinator. Who sends markers knows of leaders only, and comes again to those."""


class PartitionMarkers:
    """Each partition is asked on its own: none waits for another, and none fails for another."""

    def __init__(self, replicas: Replicas, groups: GroupCoordinator, clock: Clock) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    async def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Write the marker to each; the result of each, once it is committed there."""
        results: dict[TopicPartition, ErrorCode] = {}
        pending: list[tuple[TopicPartition, asyncio.Future[None]]] = []
        for partition in partitions:
            results[partition] = ErrorCode.none
            try:
                committed = self._append(marker, partition)
            except (KafkaError, OSError) as error:
                results[partition] = _told(error)
                continue
            if committed is not None:
                pending.append((partition, committed))
        # All that can be written is, before anything is waited for: one sync may be for many.
        for partition, committed in pending:
            try:
                await committed
            except (KafkaError, OSError) as error:
                results[partition] = _told(error)
        return results

    def _append(self, marker: Marker, at: TopicPartition) -> "asyncio.Future[None] | None":
        if at.topic == CONSUMER_OFFSETS and self._replicas.find(*at) is not None:
            return self._groups.write_marker(at.partition, marker)
        hosted = self._replicas.by_name.get(at.topic)
        partition = None if hosted is None else hosted.partitions.get(at.partition)
        if hosted is not None and at.partition in hosted.damaged:
            raise KafkaError(ErrorCode.kafka_storage_error, hosted.damaged[at.partition])
        if partition is None:
            exists = hosted is not None and hosted.exists(at.partition)
            raise KafkaError(
                ErrorCode.not_leader_or_follower if exists else ErrorCode.unknown_topic_or_partition
            )
        _, committed = partition.append_marker(marker, self._clock.wall_ms())
        return committed


def _told(error: KafkaError | OSError) -> ErrorCode:
    if isinstance(error, OSError):
        return ErrorCode.kafka_storage_error
    return ErrorCode.not_leader_or_follower if error.code in _NOT_READY else error.code
