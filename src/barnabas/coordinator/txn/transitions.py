"""From one state of a transactional id to the next. Whether it may is decided elsewhere."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from barnabas.coordinator.txn.asks import TransactionState
from barnabas.coordinator.txn.refusals import fenced
from barnabas.coordinator.txn.transaction import (
    EPOCH_MAX,
    MAY_FOLLOW,
    NOT_BEGUN,
    Transaction,
)
from barnabas.model.check import require
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    CLASSIC_TRANSACTIONS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
)


def _moved(current: Transaction, state: TransactionState, now_ms: int, **to: Any) -> Transaction:
    require(
        current.state in MAY_FOLLOW[state],
        f"{current.transactional_id} can not go from {current.state.title} to {state.title}",
    )
    return replace(
        current,
        state=state,
        previous_producer_id=current.producer_id,
        last_update_ms=now_ms,
        **to,
    )


def created(transactional_id: str, producer_id: int, now_ms: int) -> Transaction:
    """An id seen for the first time, before it has an owner. Never stored like this."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        epoch=NO_PRODUCER_EPOCH,
        timeout_ms=0,
        state=TransactionState.EMPTY,
        last_update_ms=now_ms,
    )


def with_new_epoch(
    current: Transaction, claimed_epoch: int | None, timeout_ms: int, now_ms: int
) -> Transaction:
    """A new owner, or the present one that goes on after an error (KIP-360). Raises
    PRODUCER_FENCED for one that has been replaced."""
    if claimed_epoch is None:
        epoch, last_epoch = current.epoch + 1, NO_PRODUCER_EPOCH
    elif current.epoch in (NO_PRODUCER_EPOCH, claimed_epoch):
        epoch, last_epoch = current.epoch + 1, current.epoch
    elif claimed_epoch == current.last_epoch:
        # It was answered already, and asks again. Nobody else has come between: a new owner
        # would have left no last epoch.
        epoch, last_epoch = current.epoch, current.last_epoch
    else:
        raise fenced(current, claimed_epoch)
    require(epoch < EPOCH_MAX, "an epoch that no producer may have")
    return _owned(current, current.producer_id, epoch, last_epoch, timeout_ms, now_ms)


def with_new_producer(
    current: Transaction, producer_id: int, timeout_ms: int, now_ms: int, *, claimed: bool
) -> Transaction:
    """Its epochs are used up: it begins anew under another producer id."""
    last_epoch = current.epoch if claimed else NO_PRODUCER_EPOCH
    return _owned(current, producer_id, 0, last_epoch, timeout_ms, now_ms)


def _owned(
    current: Transaction,
    producer_id: int,
    epoch: int,
    last_epoch: int,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    return _moved(
        current,
        TransactionState.EMPTY,
        now_ms,
        producer_id=producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NOT_BEGUN,
    )


def with_partitions(
    current: Transaction, partitions: Iterable[TopicPartition], version: int, now_ms: int
) -> Transaction:
    """The transaction goes on in these partitions too, or begins with them."""
    return _moved(
        current,
        TransactionState.ONGOING,
        now_ms,
        partitions=current.partitions.union(partitions),
        start_ms=now_ms if current.is_idle else current.start_ms,
        version=version,
    )


def prepared(current: Transaction, *, committed: bool, now_ms: int) -> Transaction:
    """The end of a transaction of the classic generation: from here on it is certain."""
    return _moved(
        current,
        _preparing(committed),
        now_ms,
        next_producer_id=NO_PRODUCER_ID,
        version=CLASSIC_TRANSACTIONS,
    )


def prepared_and_bumped(
    current: Transaction, *, committed: bool, next_producer_id: int, now_ms: int
) -> Transaction:
    """The same for KIP-890: the epoch that the markers have is above that of the batches, so a
    batch that comes late is refused. `next_producer_id` takes over where the epochs end."""
    require(
        (next_producer_id != NO_PRODUCER_ID) == current.is_exhausted,
        "a new producer id where the epochs end, and only there",
    )
    return _moved(
        current,
        _preparing(committed),
        now_ms,
        epoch=min(current.epoch + 1, EPOCH_MAX),
        last_epoch=current.epoch,
        next_producer_id=next_producer_id,
        # What has not begun begins with its end: a transaction that ends must have begun.
        start_ms=now_ms if current.is_idle else current.start_ms,
        version=BUMPED_TRANSACTIONS,
    )


def _preparing(committed: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT


def completed(current: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker. `last_epoch` stays: it is the last that the producer saw."""
    committed = current.state is TransactionState.PREPARE_COMMIT
    producer_id, epoch = current.following
    return _moved(
        current,
        TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
        now_ms,
        producer_id=producer_id,
        epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )
