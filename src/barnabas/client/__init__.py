"""What users import: Producer, Consumer, Admin, their asyncio twins, and ledgers.

Knows: how a Python program wants to send, read and administer, over confluent-kafka.
Does not know: the wire, or anything about how a broker works inside.
"""

from barnabas.client.admin import Admin
from barnabas.client.aio import AsyncAdmin, AsyncConsumer, AsyncProducer
from barnabas.client.consumer import Consumer
from barnabas.client.delivery import Delivered, Delivery
from barnabas.client.descriptions import (
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupOffset,
    NewTopic,
    OffsetReset,
    PartitionDescription,
    Setting,
    TopicDescription,
)
from barnabas.client.errors import (
    BrokerUnavailableError,
    ClientError,
    ClosedError,
    CommitError,
    ConfigError,
    DeliveryError,
    FencedError,
    GroupNotEmptyError,
    GroupNotFoundError,
    LedgerError,
    NotAllowedError,
    ProducerFencedError,
    TimedOutError,
    TopicExistsError,
    TopicNotFoundError,
    TransactionError,
)
from barnabas.client.intake import Rebalance
from barnabas.client.ledger import Ledger, PostgresLedger, SqliteLedger
from barnabas.client.message import Message, Transaction
from barnabas.client.producer import Producer
from barnabas.client.round_robin import RoundRobin
from barnabas.model.topics import TopicPartition

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "BrokerUnavailableError",
    "ClientError",
    "ClosedError",
    "CommitError",
    "ConfigError",
    "Consumer",
    "Delivered",
    "Delivery",
    "DeliveryError",
    "FencedError",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupNotEmptyError",
    "GroupNotFoundError",
    "GroupOffset",
    "Ledger",
    "LedgerError",
    "Message",
    "NewTopic",
    "NotAllowedError",
    "OffsetReset",
    "PartitionDescription",
    "PostgresLedger",
    "Producer",
    "ProducerFencedError",
    "Rebalance",
    "RoundRobin",
    "Setting",
    "SqliteLedger",
    "TimedOutError",
    "TopicDescription",
    "TopicExistsError",
    "TopicNotFoundError",
    "TopicPartition",
    "Transaction",
    "TransactionError",
]
