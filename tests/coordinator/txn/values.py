"""Transactional ids in every state, for tables."""

from dataclasses import replace
from typing import Any

from barnabas.coordinator.txn.asks import TransactionState
from barnabas.coordinator.txn.transaction import NOT_BEGUN, Transaction
from barnabas.model.errors import KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import BUMPED_TRANSACTIONS, CLASSIC_TRANSACTIONS

S = TransactionState

PRODUCER = 7
OTHER_PRODUCER = 8
NEW_PRODUCER = 9
EPOCH = 5
BEGUN_MS = 100
NOW_MS = 200
TIMEOUT_MS = 60_000
PARTITIONS = frozenset({TopicPartition("t", 0), TopicPartition("u", 3)})

STORED_STATES = (
    S.EMPTY,
    S.ONGOING,
    S.PREPARE_COMMIT,
    S.PREPARE_ABORT,
    S.COMPLETE_COMMIT,
    S.COMPLETE_ABORT,
)
GENERATIONS = (CLASSIC_TRANSACTIONS, BUMPED_TRANSACTIONS)


def transaction(state: TransactionState, **other: Any) -> Transaction:
    """An id that has been in use for a while."""
    in_partitions = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
    value = Transaction(
        transactional_id="x",
        producer_id=PRODUCER,
        previous_producer_id=PRODUCER,
        epoch=EPOCH,
        timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=PARTITIONS if in_partitions else frozenset(),
        start_ms=NOT_BEGUN if state is S.EMPTY else BEGUN_MS,
        last_update_ms=BEGUN_MS,
    )
    return replace(value, **other)


def refused(ask: Any, *args: Any) -> str:
    """The name of the error that `ask` raises."""
    try:
        ask(*args)
    except KafkaError as error:
        return error.code.name
    raise AssertionError("nothing was refused")
