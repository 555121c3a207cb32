"""A transactional id and the state of its transaction: a value that is replaced, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.coordinator.txn.asks import TransactionState
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import (
    CLASSIC_TRANSACTIONS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Marker,
    ProducerIdentity,
)

EPOCH_MAX: Final = 32767
"""Never given to a producer, so that whoever has the highest can still be fenced."""

NOT_BEGUN: Final = -1
"""The start of a transaction that has none yet."""

TIMEOUT_NEVER_MS: Final = 2**31 - 1
"""The timeout of those that a coordinator elsewhere ends (KIP-939): a Kafka may have left some."""

_S = TransactionState
_IDLE: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})

MAY_FOLLOW: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: _IDLE,
    _S.ONGOING: _IDLE | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    # KIP-890: a producer that does not know whether anything has begun may abort all the same.
    _S.PREPARE_ABORT: _IDLE | {_S.ONGOING},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
}
"""Every state that is stored, and what it may come after. Anything else is a defect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Who owns a transactional id, and how far the owner's transaction is."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    """Before the last change; differs from the present one only just after that was replaced."""
    next_producer_id: int = NO_PRODUCER_ID
    """Taken when the transaction is prepared, where the epochs end with it."""
    epoch: int
    last_epoch: int = NO_PRODUCER_EPOCH
    """By which the owner may ask again for what it was not answered. Kafka does not store it
    either: who asks again after the coordinator has changed, is fenced."""
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NOT_BEGUN
    last_update_ms: int
    version: int = CLASSIC_TRANSACTIONS
    """The protocol generation of whoever changed it last."""

    @property
    def producer(self) -> ProducerIdentity:
        """Whom requests are accepted from."""
        return ProducerIdentity(self.producer_id, self.epoch)

    @property
    def is_ending(self) -> bool:
        """Whether it is decided how it ends, and markers are being written."""
        return self.state in (_S.PREPARE_COMMIT, _S.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether there is no transaction."""
        return self.state in _IDLE

    @property
    def is_exhausted(self) -> bool:
        """Whether this is the last epoch that a producer may have."""
        return is_exhausted(self.epoch)

    @property
    def following(self) -> ProducerIdentity:
        """Who is going to be accepted once the markers of a prepared transaction are written."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer
        return ProducerIdentity(self.next_producer_id, 0)

    def marker(self, coordinator_epoch: int) -> Marker:
        """What a prepared transaction leaves in its partitions."""
        return Marker(
            producer_id=self.producer_id,
            epoch=self.epoch,
            coordinator_epoch=coordinator_epoch,
            committed=self.state is _S.PREPARE_COMMIT,
            transaction_version=self.version,
        )

    def times_out_before(self, now_ms: int) -> bool:
        """Whether an open transaction has been open for too long."""
        if self.timeout_ms == TIMEOUT_NEVER_MS:
            return False
        return self.start_ms + self.timeout_ms < now_ms


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A transactional id that nobody has used for long."""

    transactional_id: str


Record = Transaction | Forgotten
"""What a shard writes."""


class NeedsProducerId:
    """The answer of a shard that can not go on without a new producer id: ask again with one."""


NEEDS_PRODUCER_ID: Final = NeedsProducerId()


def is_exhausted(epoch: int) -> bool:
    """Whether a producer with this epoch can get no higher one."""
    return epoch >= EPOCH_MAX - 1
