"""Records of `__consumer_offsets` and `__transaction_state` as `barnabas log dump` shows them, with
Kafka's names."""

import base64
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from barnabas.cli.output import json_bytes
from barnabas.model.errors import DecodeError
from barnabas.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.wire.stored import (
    ConsumerGroupMember,
    ConsumerGroupRegex,
    CurrentMemberAssignment,
    GroupMetadata,
    GroupMetadataMember,
    Ignored,
    Stored,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    decode,
)
from barnabas.wire.stored.consumer_protocol import (
    NamedPartitions,
    decode_assignment,
    decode_subscription,
)
from barnabas.wire.stored.transactions import TransactionLog, decode_transaction_log

_KAFKA_NAMES: Final[dict[type, str]] = {
    ConsumerGroupMember: "ConsumerGroupMemberMetadata",
    TargetAssignmentMetadata: "ConsumerGroupTargetAssignmentMetadata",
    TargetAssignmentMember: "ConsumerGroupTargetAssignmentMember",
    CurrentMemberAssignment: "ConsumerGroupCurrentMemberAssignment",
    ConsumerGroupRegex: "ConsumerGroupRegularExpression",
}
"""Where they are not the names of our own classes."""

Shown = dict[str, Any]


def is_of_coordinators(topic: str) -> bool:
    """Whether a topic, or the folder of a copy of it, holds groups or transactions."""
    return topic.startswith((CONSUMER_OFFSETS, TRANSACTION_STATE))


def coordinators_record(
    topic: str, key: bytes | None, value: bytes | None
) -> tuple[Shown, Shown | None]:
    """Key and value as objects; DecodeError where they are none of a coordinator's."""
    if key is None:
        raise DecodeError("a record without a key")
    decoded = decode if topic.startswith(CONSUMER_OFFSETS) else decode_transaction_log
    record = decoded(key, value)
    if isinstance(record, Ignored):
        raw = None if value is None else {"bytes": json_bytes(value)}
        return {"kind": record.kind, "bytes": json_bytes(key)}, raw
    kind = _KAFKA_NAMES.get(type(record), type(record).__name__)
    shown = {name: content for name, content in _fields(record).items() if name != "value"}
    return {"kind": kind} | shown, None if record.value is None else _value(record)


def coordinators_line(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> str:
    """The same on one line: the kind, the names in the key, and what is said about them."""
    named = " ".join([str(key["kind"]), *_pairs(key)])
    return f"{named}  {'removed' if value is None else ' '.join(_pairs(value))}"


def _pairs(shown: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}={json.dumps(content, ensure_ascii=False)}"
        for name, content in shown.items()
        if name != "kind"
    ]


def _value(record: Stored | TransactionLog) -> Shown:
    shown = _fields(record.value)
    if isinstance(record, TransactionLog) and record.value is not None:
        shown["partitions"] = _named(record.value.partitions or ())
    if isinstance(record, GroupMetadata) and record.value is not None:
        is_consumers = record.value.protocol_type == "consumer"
        shown["members"] = [_member(member, is_consumers) for member in record.value.members]
    elif isinstance(record, TargetAssignmentMember) and record.value is not None:
        shown["topic_partitions"] = [
            {"topic_id": _topic_id(topic_id), "partitions": list(partitions)}
            for topic_id, partitions in record.value.topic_partitions
        ]
    return shown


def _member(member: GroupMetadataMember, is_consumers: bool) -> Shown:
    """A member, with what its own protocol says where that is the consumers'."""
    shown = _fields(member)
    if is_consumers:
        try:
            subscription = decode_subscription(member.subscription)
            assigned = decode_assignment(member.assignment)
        except DecodeError:
            # The members' own affair: bytes that are something else stay bytes.
            return shown
        shown["subscription"] = _fields(subscription)
        shown["subscription"]["owned_partitions"] = _named(subscription.owned_partitions)
        shown["assignment"] = _named(assigned)
    return shown


def _named(partitions: NamedPartitions) -> list[Shown]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions]


def _fields(record: Any) -> Shown:
    return {field.name: _json(field.name, getattr(record, field.name)) for field in fields(record)}


def _json(name: str, content: Any) -> object:
    if isinstance(content, bytes):
        return _topic_id(content) if name == "topic_id" else json_bytes(content)
    if hasattr(content, "_asdict"):
        return {each: _json(each, inner) for each, inner in content._asdict().items()}
    if isinstance(content, tuple):
        return [_json(name, each) for each in content]
    return _fields(content) if is_dataclass(content) else content


def _topic_id(identifier: bytes) -> str:
    """As Kafka's tools write it."""
    return base64.urlsafe_b64encode(identifier).decode("ascii").rstrip("=")
