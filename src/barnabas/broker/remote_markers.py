"""Writes the ends of transactions into partitions, wherever their leaders are."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from barnabas.broker.markers import PartitionMarkers
from barnabas.cluster.image import NO_LEADER
from barnabas.cluster.service import Cluster
from barnabas.link.pool import LinkPool
from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import Marker

_WRITE_TXN_MARKERS: Final = 27
_VERSION: Final = 2

_Results = Mapping[TopicPartition, ErrorCode]


class ClusterMarkers:
    """Each leader is asked on its own, all at once."""

    def __init__(self, cluster: Cluster, here: PartitionMarkers, links: LinkPool) -> None:
        self._cluster = cluster
        self._here = here
        self._links = links

    async def write(self, marker: Marker, partitions: Collection[TopicPartition]) -> _Results:
        """Write the marker to each; the result of each, once it is committed there."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(self._leader(partition), []).append(partition)
        answers = await asyncio.gather(
            *(self._write(leader, marker, some) for leader, some in by_leader.items())
        )
        return {partition: code for answer in answers for partition, code in answer.items()}

    def _leader(self, partition: TopicPartition) -> int:
        """A partition that does not exist is this broker's to tell of."""
        topic = self._cluster.image.topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return self._cluster.node_id
        return topic.partitions[partition.partition].leader

    async def _write(
        self, leader: int, marker: Marker, partitions: list[TopicPartition]
    ) -> _Results:
        if leader == self._cluster.node_id:
            return await self._here.write(marker, partitions)
        if leader == NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.not_leader_or_follower)
        try:
            answer = await self._links.call(
                leader, _WRITE_TXN_MARKERS, _VERSION, _request(marker, partitions)
            )
        except OSError:
            # It may have been written. Writing it again does no harm, and will be tried.
            return dict.fromkeys(partitions, ErrorCode.network_exception)
        told = {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for result in answer.markers
            for topic in result.topics
            for each in topic.partitions
        }
        return {each: told.get(each, ErrorCode.unknown_server_error) for each in partitions}


def _request(marker: Marker, partitions: list[TopicPartition]) -> object:
    from kio.schema.write_txn_markers.v2.request import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    from barnabas.api.typed import ProducerId, TopicName, i8, i16, i32

    topics: dict[str, list[int]] = {}
    for name, number in partitions:
        topics.setdefault(name, []).append(number)
    return WriteTxnMarkersRequest(
        markers=(
            WritableTxnMarker(
                producer_id=ProducerId(marker.producer_id),
                producer_epoch=i16(marker.epoch),
                transaction_result=marker.committed,
                topics=tuple(
                    WritableTxnMarkerTopic(
                        name=TopicName(name),
                        partition_indexes=tuple(i32(each) for each in numbers),
                    )
                    for name, numbers in topics.items()
                ),
                coordinator_epoch=i32(marker.coordinator_epoch),
                transaction_version=i8(marker.transaction_version),
            ),
        )
    )
