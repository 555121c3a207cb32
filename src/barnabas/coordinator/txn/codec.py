"""A transactional id to its record in `__transaction_state`, and back."""

from barnabas.coordinator.txn.asks import TransactionState
from barnabas.coordinator.txn.transaction import MAY_FOLLOW, Forgotten, Record, Transaction
from barnabas.model.errors import DecodeError
from barnabas.model.topics import TopicPartition
from barnabas.wire.stored.codec import Ignored
from barnabas.wire.stored.transactions import (
    TransactionLog,
    TransactionLogValue,
    decode_transaction_log,
    encode_transaction_log,
)

Topics = tuple[tuple[str, tuple[int, ...]], ...]


class TransactionCodec:
    """Records of kinds and versions not known here stay where they are."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value."""
        if isinstance(record, Forgotten):
            return encode_transaction_log(TransactionLog(record.transactional_id, None))
        return encode_transaction_log(TransactionLog(record.transactional_id, _value(record)))

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """The record, or None."""
        record = decode_transaction_log(key, value)
        if isinstance(record, Ignored):
            return None
        if record.value is None:
            return Forgotten(record.transactional_id)
        return _transaction(record.transactional_id, record.value)


def _value(transaction: Transaction) -> TransactionLogValue:
    empty = transaction.state is TransactionState.EMPTY
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        timeout_ms=transaction.timeout_ms,
        status=int(transaction.state),
        partitions=None if empty else _by_topic(transaction.partitions),
        last_update_timestamp=transaction.last_update_ms,
        start_timestamp=transaction.start_ms,
        client_transaction_version=transaction.version,
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> Topics:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return tuple((topic, tuple(numbers)) for topic, numbers in topics.items())


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    topics = value.partitions or ()
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        state=_state(transactional_id, value.status),
        partitions=frozenset(
            TopicPartition(topic, number) for topic, numbers in topics for number in numbers
        ),
        start_ms=value.start_timestamp,
        last_update_ms=value.last_update_timestamp,
        version=value.client_transaction_version,
    )


def _state(transactional_id: str, status: int) -> TransactionState:
    """One that is ever stored: of DEAD and PREPARE_EPOCH_FENCE there are no records."""
    try:
        state = TransactionState(status)
    except ValueError as error:
        raise DecodeError(f"{transactional_id} has the unknown status {status}") from error
    if state not in MAY_FOLLOW:
        raise DecodeError(f"{transactional_id} is stored as {state.title}, which nobody writes")
    return state
