"""EndTxn, and the abort of what nobody ends: what becomes of a transaction.

With KIP-890 the epoch tells a request from its repetition: the transaction that the epoch before
the present one belonged to has ended already.

               abort                   commit
               again       present     again       present
EMPTY          fenced      ends        fenced      invalid
COMPLETE_ABORT nothing     ends        invalid     invalid
COMPLETE_COMMIT invalid    ends        nothing     invalid

The classic generation has the same epoch for all, so its COMPLETE_ABORT has nothing to do for any
abort, COMPLETE_COMMIT for any commit, and everything else is invalid.
"""

from typing import Final

from barnabas.coordinator.txn import refusals, transitions
from barnabas.coordinator.txn.asks import EndTransaction, TransactionState
from barnabas.coordinator.txn.transaction import (
    EPOCH_MAX,
    NEEDS_PRODUCER_ID,
    NeedsProducerId,
    Transaction,
)
from barnabas.model.transactions import BUMPED_TRANSACTIONS, NO_PRODUCER_ID

_ENDED_BY: Final = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}
"""Whether these were commits."""


def ended(
    current: Transaction, ask: EndTransaction, new_producer_id: int, now_ms: int
) -> Transaction | NeedsProducerId | None:
    """The prepared transaction; None where it has ended like this already."""
    if ask.transaction_version >= BUMPED_TRANSACTIONS:
        return _ended_with_bump(current, ask, new_producer_id, now_ms)
    return _ended_classic(current, ask, now_ms)


def _ended_classic(current: Transaction, ask: EndTransaction, now_ms: int) -> Transaction | None:
    if ask.producer.producer_id != current.producer_id:
        raise refusals.mapping(current)
    if ask.producer.epoch != current.epoch:
        raise refusals.fenced(current, ask.producer.epoch)
    if current.is_ending:
        raise refusals.concurrent(current)
    if current.state is TransactionState.ONGOING:
        return transitions.prepared(current, committed=ask.committed, now_ms=now_ms)
    if _ENDED_BY.get(current.state) is ask.committed:
        return None
    raise refusals.invalid_end(current, committed=ask.committed)


def _ended_with_bump(
    current: Transaction, ask: EndTransaction, new_producer_id: int, now_ms: int
) -> Transaction | NeedsProducerId | None:
    if current.is_ending:
        # First of all: the producer may know of an identity already that is not in force yet.
        raise refusals.concurrent(current)
    over_the_end = _asks_again_over_the_end(current, ask)
    if ask.producer.producer_id != current.producer_id and not over_the_end:
        raise refusals.mapping(current)
    ended_by = _ENDED_BY.get(current.state)
    again = over_the_end or ask.producer.epoch + 1 == current.epoch
    if ask.producer.epoch != current.epoch and not (again and ended_by is not None):
        raise refusals.fenced(current, ask.producer.epoch)
    if again:
        if ended_by is ask.committed:
            return None
        raise refusals.invalid_end(current, committed=ask.committed)
    if ask.committed and current.state is not TransactionState.ONGOING:
        raise refusals.invalid_end(current, committed=ask.committed)
    return _prepared(current, ask.committed, new_producer_id, now_ms)


def _asks_again_over_the_end(current: Transaction, ask: EndTransaction) -> bool:
    """Whether it was not told that, with its last epoch, it has got a new producer id."""
    return (
        current.epoch == 0
        and ask.producer.epoch == EPOCH_MAX - 1
        and ask.producer.producer_id == current.previous_producer_id
    )


def aborted(
    current: Transaction, new_producer_id: int, now_ms: int
) -> Transaction | NeedsProducerId:
    """An open transaction that its producer does not end: the epoch goes up, so the producer is
    fenced, whatever generation it is of."""
    return _prepared(current, False, new_producer_id, now_ms)


def _prepared(
    current: Transaction, committed: bool, new_producer_id: int, now_ms: int
) -> Transaction | NeedsProducerId:
    if not current.is_exhausted:
        new_producer_id = NO_PRODUCER_ID  # It was taken for a state that has passed.
    elif new_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    return transitions.prepared_and_bumped(
        current, committed=committed, next_producer_id=new_producer_id, now_ms=now_ms
    )
