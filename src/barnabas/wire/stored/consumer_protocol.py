"""What consumers tell each other through the classic protocol: subscriptions and assignments.

To the coordinator these are bytes of the members' own. It reads them to know which topics a
group wants (offsets of others may expire), and tools read them to show who owns what. A version
later than 3 is read as 3: later ones only add fields at the end.
"""

from dataclasses import dataclass
from typing import Final

from barnabas.model.errors import DecodeError
from barnabas.wire.primitives import INT16, INT32, MALFORMED, encode_string
from barnabas.wire.stored import cursor as write
from barnabas.wire.stored.cursor import Cursor
from barnabas.wire.stored.cursor import version as version_of

VERSION: Final = 3

NamedPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Topic names, each with partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants, and what it holds already."""

    topics: tuple[str, ...]
    owned_partitions: NamedPartitions = ()
    generation_id: int = -1
    rack_id: str | None = None
    user_data: bytes | None = None
    version: int = VERSION


def decode_subscription(data: bytes) -> Subscription:
    """The subscription in a member's metadata; DecodeError where there is none."""
    try:
        version, cursor = _opened(data)
        topics = cursor.strings()
        user_data = cursor.nullable_blob()
        return Subscription(
            topics=topics,
            owned_partitions=_partitions(cursor) if version >= 1 else (),
            generation_id=cursor.int32() if version >= 2 else -1,
            rack_id=cursor.nullable_string() if version >= 3 else None,
            user_data=user_data,
            version=version,
        )
    except MALFORMED as error:
        raise DecodeError(f"not a consumer's subscription: {error}") from error


def decode_assignment(data: bytes) -> NamedPartitions:
    """The partitions that a leader gave to a member; DecodeError where it says something else."""
    try:
        _, cursor = _opened(data)
        assigned = _partitions(cursor)
        cursor.nullable_blob()
        return assigned
    except MALFORMED as error:
        raise DecodeError(f"not a consumer's assignment: {error}") from error


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes of a subscription in its version; what that one has no room for is left out."""
    version = subscription.version
    topics = (encode_string(name, False) for name in subscription.topics)
    parts = [
        INT16.pack(version),
        write.array(topics, flexible=False),
        _encode_user_data(subscription.user_data),
    ]
    if version >= 1:
        parts.append(_encode_partitions(subscription.owned_partitions))
    if version >= 2:
        parts.append(INT32.pack(subscription.generation_id))
    if version >= 3:
        parts.append(encode_string(subscription.rack_id, False))
    return b"".join(parts)


def encode_assignment(
    assigned: NamedPartitions, user_data: bytes | None = None, version: int = VERSION
) -> bytes:
    """The bytes of an assignment; they are the same in every version but for its number."""
    return INT16.pack(version) + _encode_partitions(assigned) + _encode_user_data(user_data)


def _opened(data: bytes) -> tuple[int, Cursor]:
    version = version_of(data)
    if version < 0:
        raise DecodeError(f"version {version} of the consumer protocol")
    return version, Cursor(data, 2, flexible=False)


def _partitions(cursor: Cursor) -> NamedPartitions:
    return cursor.array(lambda at: (at.string(), at.int32s()), 6)


def _encode_partitions(partitions: NamedPartitions) -> bytes:
    topics = (
        encode_string(topic, False) + write.int32s(numbers, flexible=False)
        for topic, numbers in partitions
    )
    return write.array(topics, flexible=False)


def _encode_user_data(user_data: bytes | None) -> bytes:
    return INT32.pack(-1) if user_data is None else write.blob(user_data, flexible=False)
