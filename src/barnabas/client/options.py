"""The keyword arguments of Producer, Consumer and Admin, for their asyncio twins."""

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from barnabas.client.admin import Isolation
from barnabas.client.consumer import Commit, Place, Protocol, Start
from barnabas.client.intake import Rebalance
from barnabas.client.ledger.base import Ledger
from barnabas.client.producer import Acks, Compression, Producer, Serializer
from barnabas.client.semantics import Delivery
from barnabas.client.settings import Config


class AdminOptions(TypedDict, total=False):
    """Of `Admin`."""

    timeout: float
    config: Config | None


class ProducerOptions(TypedDict, total=False):
    """Of `Producer`."""

    acks: Acks
    idempotent: bool | None
    compression: Compression
    linger_ms: float
    timeout: float
    transactional_id: str | None
    transaction_timeout: float
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    config: Config | None


class ConsumerOptions(TypedDict, total=False):
    """Of `Consumer`."""

    assign: Iterable[Place] | None
    delivery: Delivery
    commit: Commit
    commit_interval: float
    commit_every: int | None
    ledger: Ledger[Any] | None
    producer: Producer | None
    start: Start
    timeout: float | None
    isolation: Isolation
    protocol: Protocol
    instance_id: str | None
    on_rebalance: Callable[[Rebalance], None] | None
    config: Config | None
