"""InitProducerId: who becomes the owner of a transactional id."""

from barnabas.config.transaction_settings import TransactionSettings
from barnabas.coordinator.txn import refusals, transitions
from barnabas.coordinator.txn.asks import InitProducer, TransactionState
from barnabas.coordinator.txn.ending import aborted
from barnabas.coordinator.txn.transaction import (
    NEEDS_PRODUCER_ID,
    NeedsProducerId,
    Transaction,
    is_exhausted,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NOBODY,
    ProducerIdentity,
)


def check_init(ask: InitProducer, settings: TransactionSettings) -> None:
    """What can be refused without knowing the transactional id."""
    if not 0 < ask.timeout_ms <= settings.timeout_max_ms:
        raise KafkaError(
            ErrorCode.invalid_transaction_timeout,
            f"The transaction timeout must be from 1 to {settings.timeout_max_ms} ms "
            "(transaction.max.timeout.ms).",
        )


def initialized(
    current: Transaction | None, ask: InitProducer, new_producer_id: int, now_ms: int
) -> Transaction | NeedsProducerId:
    """What the transactional id becomes: one with a new owner (EMPTY), or, where a transaction
    is open, one without that transaction (PREPARE_ABORT): then the owner has to ask again."""
    if current is None:
        if new_producer_id == NO_PRODUCER_ID:
            return NEEDS_PRODUCER_ID
        current = transitions.created(ask.transactional_id, new_producer_id, now_ms)
    if current.is_ending:
        raise refusals.concurrent(current)
    claimed = None if ask.claimed == NOBODY else ask.claimed
    if claimed is not None and not _may_be(claimed, current):
        raise refusals.fenced_producer(current)
    if current.state is TransactionState.ONGOING:
        return aborted(current, new_producer_id, now_ms)
    return _owned(current, claimed, ask, new_producer_id, now_ms)


def _owned(
    current: Transaction,
    claimed: ProducerIdentity | None,
    ask: InitProducer,
    new_producer_id: int,
    now_ms: int,
) -> Transaction | NeedsProducerId:
    claimed_epoch = None if claimed is None else claimed.epoch
    if not current.is_exhausted or claimed_epoch not in (None, current.epoch):
        return transitions.with_new_epoch(current, claimed_epoch, ask.timeout_ms, now_ms)
    if new_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    return transitions.with_new_producer(
        current, new_producer_id, ask.timeout_ms, now_ms, claimed=claimed is not None
    )


def _may_be(claimed: ProducerIdentity, current: Transaction) -> bool:
    """Whether whoever claims to be this producer may be the owner; its epoch is looked at later.

    Of an id that was forgotten it may. And it may not have been told of its new producer id.
    """
    return (
        current.epoch == NO_PRODUCER_EPOCH
        or claimed.producer_id == current.producer_id
        or (claimed.producer_id == current.previous_producer_id and is_exhausted(claimed.epoch))
    )
