"""What the transaction coordinator is asked, and what it answers, free of any API version.

Errors are raised as KafkaError before anything is changed.
"""

from dataclasses import dataclass
from enum import IntEnum

from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import NOBODY, ProducerIdentity


class TransactionState(IntEnum):
    """The numbers are those of Kafka's transaction log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As ListTransactions spells it: "PrepareCommit"."""
        return self.name.title().replace("_", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """InitProducerId with a transactional id."""

    transactional_id: str
    timeout_ms: int
    claimed: ProducerIdentity = NOBODY
    """What the producer takes itself for (v3+), if anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """AddPartitionsToTxn of a client, or the implicit one of Produce and TxnOffsetCommit."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """EndTxn."""

    transactional_id: str
    producer: ProducerIdentity
    committed: bool
    transaction_version: int
    """2: the answer carries the identity for the next transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """DescribeTransactions."""

    transactional_id: str
    state: TransactionState
    timeout_ms: int
    start_ms: int
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A row of ListTransactions, with what its filters ask about."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    start_ms: int
    """-1 where nothing has begun."""
