"""A transactional id and its transaction, as they lie in `__transaction_state`.

Written in version 1, the flexible one, as Kafka does where `transaction.version` is 2.
"""

import struct
from dataclasses import dataclass
from typing import Final

from barnabas.model.errors import DecodeError
from barnabas.wire.primitives import (
    INT16,
    INT64,
    MALFORMED,
    encode_count,
    encode_string,
    read_string,
    uvarint,
)
from barnabas.wire.stored import cursor as write
from barnabas.wire.stored.codec import Ignored
from barnabas.wire.stored.cursor import NO_TAGS, Cursor, version

_KIND: Final = 0
_VERSION: Final = 1

_HEAD: Final = struct.Struct(">hqhib")
"""Version, producer id, epoch, timeout, status."""
_TWO_TIMES: Final = struct.Struct(">qq")
_PARTITIONS_BYTES_MIN: Final = 3
"""The lengths of a name and of an array, and the end of the tags."""

_PREVIOUS_PRODUCER_ID: Final = 0
_NEXT_PRODUCER_ID: Final = 1
_CLIENT_TRANSACTION_VERSION: Final = 2
_NEXT_PRODUCER_EPOCH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue:
    """Everything about one transactional id."""

    producer_id: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int
    next_producer_epoch: int = -1
    timeout_ms: int
    status: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    """By topic; None where there is no transaction."""
    last_update_timestamp: int
    start_timestamp: int
    client_transaction_version: int = 0


@dataclass(frozen=True, slots=True)
class TransactionLog:
    """A transactional id; without a value it is forgotten."""

    transactional_id: str
    value: TransactionLogValue | None


def encode_transaction_log(record: TransactionLog) -> tuple[bytes, bytes | None]:
    """Key and value. ValueError for a name of more than 32767 bytes, which no request brings."""
    key = INT16.pack(_KIND) + encode_string(record.transactional_id, False)
    value = record.value
    if value is None:
        return key, None
    return key, b"".join(
        (
            _HEAD.pack(
                _VERSION, value.producer_id, value.producer_epoch, value.timeout_ms, value.status
            ),
            _encode_partitions(value.partitions),
            _TWO_TIMES.pack(value.last_update_timestamp, value.start_timestamp),
            _encode_tags(value),
        )
    )


def _encode_partitions(topics: tuple[tuple[str, tuple[int, ...]], ...] | None) -> bytes:
    if topics is None:
        return encode_count(-1, True)
    return write.array(
        (
            encode_string(topic, True) + write.int32s(partitions, flexible=True) + NO_TAGS
            for topic, partitions in topics
        ),
        flexible=True,
    )


def _encode_tags(value: TransactionLogValue) -> bytes:
    """Only what says something, as Kafka does."""
    tags: list[tuple[int, bytes]] = []
    if value.previous_producer_id != -1:
        tags.append((_PREVIOUS_PRODUCER_ID, INT64.pack(value.previous_producer_id)))
    if value.next_producer_id != -1:
        tags.append((_NEXT_PRODUCER_ID, INT64.pack(value.next_producer_id)))
    if value.client_transaction_version != 0:
        tags.append((_CLIENT_TRANSACTION_VERSION, INT16.pack(value.client_transaction_version)))
    if value.next_producer_epoch != -1:
        tags.append((_NEXT_PRODUCER_EPOCH, INT16.pack(value.next_producer_epoch)))
    contents = (uvarint(tag) + uvarint(len(content)) + content for tag, content in tags)
    return uvarint(len(tags)) + b"".join(contents)


def decode_transaction_log(key: bytes, value: bytes | None) -> TransactionLog | Ignored:
    """The record that a key and a value are; `Ignored` for versions not known here.

    Bytes after the last known field are passed over, as Kafka does. DecodeError for damage.
    """
    try:
        kind = version(key)
        if kind != _KIND:
            return Ignored(kind)
        transactional_id, _ = read_string(key, 2)
        if value is None:
            return TransactionLog(transactional_id, None)
        number = version(value)
        if not 0 <= number <= _VERSION:
            return Ignored(kind)
        return TransactionLog(transactional_id, _decode_value(value, flexible=number >= _VERSION))
    except MALFORMED as error:
        raise DecodeError(f"a record of the transaction log is damaged: {error}") from error


def _decode_value(data: bytes, *, flexible: bool) -> TransactionLogValue:
    _, producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(data)
    cursor = Cursor(data, _HEAD.size, flexible=flexible)
    partitions = _decode_partitions(cursor)
    last_update, start = cursor.int64(), cursor.int64()
    tags = cursor.tags()
    return TransactionLogValue(
        producer_id=producer_id,
        previous_producer_id=_int64_of(tags, _PREVIOUS_PRODUCER_ID),
        next_producer_id=_int64_of(tags, _NEXT_PRODUCER_ID),
        producer_epoch=epoch,
        next_producer_epoch=_int16_of(tags, _NEXT_PRODUCER_EPOCH, -1),
        timeout_ms=timeout_ms,
        status=status,
        partitions=partitions,
        last_update_timestamp=last_update,
        start_timestamp=start,
        client_transaction_version=_int16_of(tags, _CLIENT_TRANSACTION_VERSION, 0),
    )


def _decode_partitions(cursor: Cursor) -> tuple[tuple[str, tuple[int, ...]], ...] | None:
    count = cursor.count(_PARTITIONS_BYTES_MIN, nullable=True)
    return None if count < 0 else tuple([_decode_topic(cursor) for _ in range(count)])


def _decode_topic(cursor: Cursor) -> tuple[str, tuple[int, ...]]:
    topic = cursor.string(), cursor.int32s()
    cursor.tags()
    return topic


def _int64_of(tags: dict[int, Cursor], tag: int) -> int:
    return tags[tag].int64() if tag in tags else -1


def _int16_of(tags: dict[int, Cursor], tag: int, default: int) -> int:
    if tag not in tags:
        return default
    cursor = tags[tag]
    number: int = INT16.unpack_from(cursor.data, cursor.position)[0]
    return number
