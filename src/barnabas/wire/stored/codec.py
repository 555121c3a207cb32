"""The way in and out of this room: `encode` and `decode` for whole records, key and value.

Written by hand over the primitives instead of being driven by kio's dataclasses: the whole of it
is smaller than the tables would be, key and value come together as one object, and a commit is
written in 2 to 3 µs where kio's writer takes 15 to 20 for a message. What the values look like is
in the file of each group protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.model.errors import DecodeError
from barnabas.wire.primitives import INT16, MALFORMED, encode_string, read_string
from barnabas.wire.stored import consumer_group_values as values
from barnabas.wire.stored import kinds
from barnabas.wire.stored.classic_groups import (
    VERSION_MAX,
    GroupMetadata,
    decode_group_metadata_value,
    encode_group_metadata_value,
)
from barnabas.wire.stored.consumer_groups import (
    ConsumerGroupMember,
    ConsumerGroupMetadata,
    ConsumerGroupRegex,
    CurrentMemberAssignment,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from barnabas.wire.stored.cursor import Cursor, version
from barnabas.wire.stored.offsets import (
    OffsetCommit,
    decode_offset_commit,
    encode_offset_commit,
)

Stored = (
    OffsetCommit
    | GroupMetadata
    | ConsumerGroupMetadata
    | ConsumerGroupMember
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentMemberAssignment
    | ConsumerGroupRegex
)
"""Every record that is written, and read back when a partition of the topic is loaded."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A record that says nothing here: retired, of a kind of group that is not served, or from a
    later Kafka."""

    kind: int


class _ConsumerKind(NamedTuple):
    """One kind of a consumer group's records: what it is called and how its value is coded."""

    record: Callable[..., Stored]
    key_names: tuple[str, ...]
    encode: Callable[[Any], bytes]
    decode: Callable[[Cursor], Any]


_OF_GROUP: Final = ("group",)
_OF_MEMBER: Final = ("group", "member_id")

_CONSUMER_KINDS: Final = {
    kinds.CONSUMER_GROUP_METADATA: _ConsumerKind(
        ConsumerGroupMetadata, _OF_GROUP, values.encode_group, values.decode_group
    ),
    kinds.CONSUMER_GROUP_MEMBER_METADATA: _ConsumerKind(
        ConsumerGroupMember, _OF_MEMBER, values.encode_member, values.decode_member
    ),
    kinds.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _ConsumerKind(
        TargetAssignmentMetadata, _OF_GROUP, values.encode_target, values.decode_target
    ),
    kinds.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _ConsumerKind(
        TargetAssignmentMember, _OF_MEMBER, values.encode_target_member, values.decode_target_member
    ),
    kinds.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _ConsumerKind(
        CurrentMemberAssignment, _OF_MEMBER, values.encode_current, values.decode_current
    ),
    kinds.CONSUMER_GROUP_REGULAR_EXPRESSION: _ConsumerKind(
        ConsumerGroupRegex,
        ("group", "regular_expression"),
        values.encode_regex,
        values.decode_regex,
    ),
}
_KIND_OF: Final = {row.record: kind for kind, row in _CONSUMER_KINDS.items()}
_FIRST_VERSION: Final = INT16.pack(0)


def encode(record: Stored) -> tuple[bytes, bytes | None]:
    """Key and value, in the versions that Kafka 4.3 writes; no value is a tombstone.

    ValueError for a text of more than 32767 bytes, which no request can bring.
    """
    if type(record) is OffsetCommit:
        return encode_offset_commit(record)
    if type(record) is GroupMetadata:
        key = INT16.pack(kinds.GROUP_METADATA) + encode_string(record.group, False)
        return key, None if record.value is None else encode_group_metadata_value(record.value)
    return _encode_of_consumer_group(record)


def _encode_of_consumer_group(record: Stored) -> tuple[bytes, bytes | None]:
    kind = _KIND_OF[type(record)]
    row = _CONSUMER_KINDS[kind]
    names = (encode_string(getattr(record, name), False) for name in row.key_names)
    key = INT16.pack(kind) + b"".join(names)
    if record.value is None:
        return key, None
    return key, _FIRST_VERSION + row.encode(record.value)


def decode(key: bytes, value: bytes | None) -> Stored | Ignored:
    """The record that a key and a value are, in whatever version they were written.

    Bytes after the last known field are passed over, as Kafka does. DecodeError for damage.
    """
    try:
        kind = version(key)
        record = _decode(kind, key, value)
    except MALFORMED as error:
        raise DecodeError(f"a record of the offsets topic is damaged: {error}") from error
    return Ignored(kind) if record is None else record


def _decode(kind: int, key: bytes, value: bytes | None) -> Stored | None:
    """None for what is not known: a kind, or a version of a value."""
    if kind in (kinds.OFFSET_COMMIT, kinds.LEGACY_OFFSET_COMMIT):
        return decode_offset_commit(key, value)
    if kind == kinds.GROUP_METADATA:
        return _decode_classic_group(key, value)
    row = _CONSUMER_KINDS.get(kind)
    if row is None:
        return None
    names = []
    position = 2
    for _ in row.key_names:
        name, position = read_string(key, position)
        names.append(name)
    if value is None:
        return row.record(*names, None)
    if version(value) != 0:
        return None
    return row.record(*names, row.decode(Cursor(value, 2, flexible=True)))


def _decode_classic_group(key: bytes, value: bytes | None) -> GroupMetadata | None:
    group, _ = read_string(key, 2)
    if value is None:
        return GroupMetadata(group, None)
    number = version(value)
    if not 0 <= number <= VERSION_MAX:
        return None
    return GroupMetadata(group, decode_group_metadata_value(value, number))
