"""Who is asked whether partitions are part of a transaction. (The broker hands it in.)"""

from collections.abc import Mapping
from typing import Protocol

from barnabas.coordinator.runtime.turn import Answer
from barnabas.coordinator.txn.asks import AddPartitions
from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition


class Enrolment(Protocol):
    """Reaches the coordinator of every transaction. Either method raises KafkaError."""

    def add_partitions(self, ask: AddPartitions) -> Answer[None]:
        """Make these partitions part of the transaction."""
        ...

    def verify_partitions(self, ask: AddPartitions) -> Answer[Mapping[TopicPartition, ErrorCode]]:
        """Whether they are: the result of each."""
        ...
