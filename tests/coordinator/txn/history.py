"""What a transaction log must look like, whatever has happened, and what a client may conclude."""

from collections import defaultdict
from collections.abc import Iterable

from barnabas.coordinator.txn.asks import TransactionState
from barnabas.coordinator.txn.transaction import EPOCH_MAX, MAY_FOLLOW, Record, Transaction
from barnabas.model.transactions import BUMPED_TRANSACTIONS, ProducerIdentity

S = TransactionState
History = list[Transaction | None]
"""Of one id, in the order of the log; None where it was forgotten."""


def histories(records: Iterable[Record]) -> dict[str, History]:
    found: defaultdict[str, History] = defaultdict(list)
    for record in records:
        value = record if isinstance(record, Transaction) else None
        found[record.transactional_id].append(value)
    return dict(found)


def check_history(history: History) -> None:
    """One owner at a time, and decisions that stand."""
    producers: list[int] = []
    decisions: set[ProducerIdentity] = set()
    before: Transaction | None = None
    for each in history:
        if each is not None:
            if each.producer_id not in producers:
                assert each.epoch == 0 or before is None, "a new producer begins at its beginning"
                producers.append(each.producer_id)
            assert each.producer_id == producers[-1], "an old producer has come back"
            if before is not None:
                _check_step(before, each)
            if each.is_ending and each.version >= BUMPED_TRANSACTIONS:
                assert each.producer not in decisions, "two ends of one epoch"
                decisions.add(each.producer)
        before = each


def _check_step(before: Transaction, after: Transaction) -> None:
    assert before.state in MAY_FOLLOW[after.state]
    assert after.last_update_ms >= before.last_update_ms
    if after.producer_id == before.producer_id:
        assert before.epoch <= after.epoch <= before.epoch + 1
    else:
        assert before.epoch >= EPOCH_MAX - 1, "a producer id is given up before its time"
    if before.is_ending:
        assert after.producer == before.following
        assert not after.partitions
    elif after.is_ending:
        assert after.partitions == before.partitions, "its end forgets a partition"
    elif before.state is after.state is S.ONGOING:
        assert after.producer == before.producer, "a transaction changes hands"
        assert after.partitions >= before.partitions
        assert after.start_ms == before.start_ms


def has_owner(history: History, owner: ProducerIdentity) -> bool:
    """Whether the id was ever given to this producer."""
    return any(each is not None and each.producer == owner for each in history)


def has_decision(
    history: History, producer: ProducerIdentity, committed: bool, version: int
) -> bool:
    """Whether the producer's transaction (its last one, where all have one epoch) ended so."""
    epoch = producer.epoch
    if version >= BUMPED_TRANSACTIONS:
        epoch = min(epoch + 1, EPOCH_MAX)
    state = S.PREPARE_COMMIT if committed else S.PREPARE_ABORT
    return any(
        each is not None and each.state is state and each.producer == (producer.producer_id, epoch)
        for each in history
    )
