"""A committed offset, as it lies in `__consumer_offsets`.

Every commit of every consumer comes through here, and every one of them again at start-up: so
both ways are written out, with one `struct` call for each run of numbers.
"""

import struct
from dataclasses import dataclass
from typing import Final

from barnabas.wire.primitives import (
    INT16,
    INT32,
    INT64,
    encode_string,
    read_compact_string,
    read_string,
    read_tags,
)
from barnabas.wire.stored import kinds
from barnabas.wire.stored.cursor import NO_TAGS, Cursor, uuid, version

NO_TOPIC_ID: Final = bytes(16)
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

_VERSION: Final = 4
_EXPIRING_VERSION: Final = 1
"""The one version with room for an expiry time of the commit's own."""

_KIND: Final = INT16.pack(kinds.OFFSET_COMMIT)
_OFFSET_AND_EPOCH: Final = struct.Struct(">hqi")
_OFFSET: Final = struct.Struct(">hq")
_TWO_TIMES: Final = struct.Struct(">qq")
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
_ONE_TAG_BYTES: Final = len(_TOPIC_ID_TAG) + len(NO_TOPIC_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """Where a group is in a partition, and what it noted there."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    """Set only for commits that asked for a retention time of their own (OffsetCommit 2 to 4)."""
    topic_id: bytes = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A group's offset in one partition; without a value it is forgotten."""

    group: str
    topic: str
    partition: int
    value: OffsetValue | None


def encode_offset_commit(record: OffsetCommit) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka 4.3 writes them: version 4, or 1 for a commit that expires."""
    key = b"".join(
        (
            _KIND,
            encode_string(record.group, False),
            encode_string(record.topic, False),
            INT32.pack(record.partition),
        )
    )
    value = record.value
    if value is None:
        return key, None
    if value.expire_timestamp != NO_TIMESTAMP:
        return key, _expiring(value)
    return key, b"".join(
        (
            _OFFSET_AND_EPOCH.pack(_VERSION, value.offset, value.leader_epoch),
            encode_string(value.metadata, True),
            INT64.pack(value.commit_timestamp),
            NO_TAGS if value.topic_id == NO_TOPIC_ID else _TOPIC_ID_TAG + uuid(value.topic_id),
        )
    )


def _expiring(value: OffsetValue) -> bytes:
    return (
        _OFFSET.pack(_EXPIRING_VERSION, value.offset)
        + encode_string(value.metadata, False)
        + _TWO_TIMES.pack(value.commit_timestamp, value.expire_timestamp)
    )


def decode_offset_commit(key: bytes, value: bytes | None) -> OffsetCommit | None:
    """The record of a key of kind 0 or 1; None for a version of the value not known here."""
    group, position = read_string(key, 2)
    topic, position = read_string(key, position)
    (partition,) = INT32.unpack_from(key, position)
    if value is None:
        return OffsetCommit(group, topic, partition, None)
    number = version(value)
    if number == _VERSION:
        return OffsetCommit(group, topic, partition, _current(value))
    if 0 <= number < _VERSION:
        return OffsetCommit(group, topic, partition, _older(value, number))
    return None


def _current(value: bytes) -> OffsetValue:
    _, offset, leader_epoch = _OFFSET_AND_EPOCH.unpack_from(value)
    metadata, position = read_compact_string(value, _OFFSET_AND_EPOCH.size)
    (commit_timestamp,) = INT64.unpack_from(value, position)
    return OffsetValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=commit_timestamp,
        topic_id=_topic_id(value, position + 8),
    )


def _topic_id(value: bytes, position: int) -> bytes:
    tags = value[position:]
    if tags == NO_TAGS:
        return NO_TOPIC_ID
    if len(tags) == _ONE_TAG_BYTES and tags.startswith(_TOPIC_ID_TAG):
        return tags[len(_TOPIC_ID_TAG) :]
    # Only a later Kafka writes anything else.
    starts, _ = read_tags(value, position)
    return Cursor(value, starts[0], flexible=True).uuid() if 0 in starts else NO_TOPIC_ID


def _older(value: bytes, number: int) -> OffsetValue:
    cursor = Cursor(value, 2, flexible=False)
    return OffsetValue(
        offset=cursor.int64(),
        leader_epoch=cursor.int32() if number >= 3 else NO_LEADER_EPOCH,
        metadata=cursor.string(),
        commit_timestamp=cursor.int64(),
        expire_timestamp=cursor.int64() if number == _EXPIRING_VERSION else NO_TIMESTAMP,
    )
