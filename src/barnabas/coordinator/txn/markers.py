"""Who writes the ends of transactions into partitions. (The broker hands it in.)"""

from collections.abc import Collection, Mapping
from typing import Protocol

from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import Marker


class Markers(Protocol):
    """Reaches the leader of every partition."""

    async def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Write the marker to each; the result of each, once it is committed there. Never raises
        KafkaError or OSError: what went wrong is the result of the partition it went wrong for."""
        ...
