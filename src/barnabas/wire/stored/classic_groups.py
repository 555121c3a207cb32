"""A group of the classic protocol, whole in one record of `__consumer_offsets`."""

from dataclasses import dataclass
from typing import Final

from barnabas.wire.primitives import INT16, INT32, INT64, encode_string
from barnabas.wire.stored import cursor as write
from barnabas.wire.stored.cursor import Cursor

VERSION: Final = 3
"""What Kafka 4.3 writes, although it reads 4, the first flexible one, too."""
VERSION_MAX: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataMember:
    """One member of a stable classic group."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout: int = -1
    session_timeout: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """A generation of a classic group; without members and protocol when it is empty."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int = -1
    members: tuple[GroupMetadataMember, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group; without a value it is gone."""

    group: str
    value: GroupMetadataValue | None


def encode_group_metadata_value(value: GroupMetadataValue) -> bytes:
    """The value as Kafka 4.3 writes it."""
    return b"".join(
        (
            INT16.pack(VERSION),
            encode_string(value.protocol_type, False),
            INT32.pack(value.generation),
            encode_string(value.protocol, False),
            encode_string(value.leader, False),
            INT64.pack(value.current_state_timestamp),
            write.array(map(_encode_member, value.members), flexible=False),
        )
    )


def _encode_member(member: GroupMetadataMember) -> bytes:
    return b"".join(
        (
            encode_string(member.member_id, False),
            encode_string(member.group_instance_id, False),
            encode_string(member.client_id, False),
            encode_string(member.client_host, False),
            INT32.pack(member.rebalance_timeout),
            INT32.pack(member.session_timeout),
            write.blob(member.subscription, flexible=False),
            write.blob(member.assignment, flexible=False),
        )
    )


def decode_group_metadata_value(data: bytes, version: int) -> GroupMetadataValue:
    """Any version from 0 to 4."""
    cursor = Cursor(data, 2, flexible=version >= 4)
    protocol_type = cursor.string()
    generation = cursor.int32()
    protocol = cursor.nullable_string()
    leader = cursor.nullable_string()
    timestamp = cursor.int64() if version >= 2 else -1
    # Five lengths of at least a byte each, and the session timeout.
    members = cursor.array(lambda at: _decode_member(at, version), 9)
    cursor.tags()
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=timestamp,
        members=members,
    )


def _decode_member(cursor: Cursor, version: int) -> GroupMetadataMember:
    member = GroupMetadataMember(
        member_id=cursor.string(),
        group_instance_id=cursor.nullable_string() if version >= 3 else None,
        client_id=cursor.string(),
        client_host=cursor.string(),
        rebalance_timeout=cursor.int32() if version >= 1 else -1,
        session_timeout=cursor.int32(),
        subscription=cursor.blob(),
        assignment=cursor.blob(),
    )
    cursor.tags()
    return member
