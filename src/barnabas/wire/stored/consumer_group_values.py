"""The values of a consumer group's records in bytes. All have version 0, which is flexible."""

from typing import Final

from barnabas.wire.primitives import INT32, INT64, encode_string, uvarint
from barnabas.wire.stored import cursor as write
from barnabas.wire.stored.consumer_groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegexValue,
    CurrentMemberAssignmentValue,
    OwnedPartitions,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
)
from barnabas.wire.stored.cursor import NO_TAGS, Cursor

_NULL: Final = b"\x00"
"""Written even where a tagged field is null: Kafka takes an absent one for an empty struct or
array, and would think a member without classic metadata one of the classic protocol."""

_TOPIC_BYTES_MIN: Final = 18
"""An id, the length of an array, and the end of the tags."""


def _compact(text: str | None) -> bytes:
    return encode_string(text, True)


def _compacts(texts: tuple[str, ...]) -> bytes:
    return write.array(map(_compact, texts), flexible=True)


def encode_group(value: ConsumerGroupMetadataValue) -> bytes:
    """The value of kind 3."""
    hashed = write.one_tag(INT64.pack(value.metadata_hash)) if value.metadata_hash else NO_TAGS
    return INT32.pack(value.epoch) + hashed


def decode_group(cursor: Cursor) -> ConsumerGroupMetadataValue:
    """The value of kind 3."""
    epoch = cursor.int32()
    tags = cursor.tags()
    return ConsumerGroupMetadataValue(
        epoch=epoch, metadata_hash=tags[0].int64() if 0 in tags else 0
    )


def encode_member(value: ConsumerGroupMemberValue) -> bytes:
    """The value of kind 5."""
    classic = value.classic_member_metadata
    return b"".join(
        (
            _compact(value.instance_id),
            _compact(value.rack_id),
            _compact(value.client_id),
            _compact(value.client_host),
            _compacts(value.subscribed_topic_names),
            _compact(value.subscribed_topic_regex),
            INT32.pack(value.rebalance_timeout_ms),
            _compact(value.server_assignor),
            write.one_tag(_NULL if classic is None else _encode_classic(classic)),
        )
    )


def _encode_classic(classic: ClassicMemberMetadata) -> bytes:
    protocols = (
        _compact(protocol.name) + write.blob(protocol.metadata, flexible=True) + NO_TAGS
        for protocol in classic.supported_protocols
    )
    # The one in front says that the struct, which may be null, is not.
    return b"".join(
        (
            uvarint(1),
            INT32.pack(classic.session_timeout_ms),
            write.array(protocols, flexible=True),
            NO_TAGS,
        )
    )


def decode_member(cursor: Cursor) -> ConsumerGroupMemberValue:
    """The value of kind 5."""
    instance_id = cursor.nullable_string()
    rack_id = cursor.nullable_string()
    client_id = cursor.string()
    client_host = cursor.string()
    names = cursor.strings()
    regex = cursor.nullable_string()
    rebalance_timeout_ms = cursor.int32()
    server_assignor = cursor.nullable_string()
    tags = cursor.tags()
    return ConsumerGroupMemberValue(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=server_assignor,
        classic_member_metadata=_decode_classic(tags[0]) if 0 in tags else None,
    )


def _decode_classic(cursor: Cursor) -> ClassicMemberMetadata | None:
    if cursor.uvarint() == 0:
        return None
    # The last field of its section: what tags it has are of no use.
    return ClassicMemberMetadata(
        session_timeout_ms=cursor.int32(),
        supported_protocols=cursor.array(_decode_protocol, 3),
    )


def _decode_protocol(cursor: Cursor) -> ClassicProtocol:
    protocol = ClassicProtocol(cursor.string(), cursor.blob())
    cursor.tags()
    return protocol


def encode_target(value: TargetAssignmentMetadataValue) -> bytes:
    """The value of kind 6."""
    time = value.assignment_timestamp
    return INT32.pack(value.assignment_epoch) + (
        write.one_tag(INT64.pack(time)) if time else NO_TAGS
    )


def decode_target(cursor: Cursor) -> TargetAssignmentMetadataValue:
    """The value of kind 6."""
    epoch = cursor.int32()
    tags = cursor.tags()
    return TargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=tags[0].int64() if 0 in tags else 0
    )


def encode_target_member(value: TargetAssignmentMemberValue) -> bytes:
    """The value of kind 7."""
    topics = (
        write.uuid(topic_id) + write.int32s(partitions, flexible=True) + NO_TAGS
        for topic_id, partitions in value.topic_partitions
    )
    return write.array(topics, flexible=True) + NO_TAGS


def decode_target_member(cursor: Cursor) -> TargetAssignmentMemberValue:
    """The value of kind 7."""
    value = TargetAssignmentMemberValue(
        topic_partitions=cursor.array(_decode_topic, _TOPIC_BYTES_MIN)
    )
    cursor.tags()
    return value


def _decode_topic(cursor: Cursor) -> tuple[bytes, tuple[int, ...]]:
    topic = cursor.uuid(), cursor.int32s()
    cursor.tags()
    return topic


def encode_current(value: CurrentMemberAssignmentValue) -> bytes:
    """The value of kind 8."""
    return b"".join(
        (
            INT32.pack(value.member_epoch),
            INT32.pack(value.previous_member_epoch),
            write.int8(value.state),
            write.array(map(_encode_owned, value.assigned_partitions), flexible=True),
            write.array(map(_encode_owned, value.partitions_pending_revocation), flexible=True),
            NO_TAGS,
        )
    )


def _encode_owned(owned: OwnedPartitions) -> bytes:
    epochs = owned.assignment_epochs
    return (
        write.uuid(owned.topic_id)
        + write.int32s(owned.partitions, flexible=True)
        + write.one_tag(_NULL if epochs is None else write.int32s(epochs, flexible=True))
    )


def decode_current(cursor: Cursor) -> CurrentMemberAssignmentValue:
    """The value of kind 8."""
    value = CurrentMemberAssignmentValue(
        member_epoch=cursor.int32(),
        previous_member_epoch=cursor.int32(),
        state=cursor.int8(),
        assigned_partitions=cursor.array(_decode_owned, _TOPIC_BYTES_MIN),
        partitions_pending_revocation=cursor.array(_decode_owned, _TOPIC_BYTES_MIN),
    )
    cursor.tags()
    return value


def _decode_owned(cursor: Cursor) -> OwnedPartitions:
    topic_id = cursor.uuid()
    partitions = cursor.int32s()
    tags = cursor.tags()
    return OwnedPartitions(topic_id, partitions, tags[0].nullable_int32s() if 0 in tags else None)


def encode_regex(value: ConsumerGroupRegexValue) -> bytes:
    """The value of kind 16."""
    return b"".join(
        (_compacts(value.topics), INT64.pack(value.version), INT64.pack(value.timestamp), NO_TAGS)
    )


def decode_regex(cursor: Cursor) -> ConsumerGroupRegexValue:
    """The value of kind 16."""
    value = ConsumerGroupRegexValue(
        topics=cursor.strings(), version=cursor.int64(), timestamp=cursor.int64()
    )
    cursor.tags()
    return value
