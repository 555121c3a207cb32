"""Reads any message from bytes of a stranger, driven by the metadata of kio's dataclasses.

kio's own reader is not given such bytes: it allocates for whatever count an array claims, which
aborts the process at 2^31 - 1, and it fails on tagged fields and error codes it does not know.
This one checks every count against the bytes that remain first, bounds how many elements a
request has altogether, skips unknown tagged fields without keeping them, and takes every value
that is legal in Kafka.

A reader is built once for a class and kept. Each is a function of buffer and position to value
and next position.
"""

import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin
from uuid import UUID

from barnabas.model import limits
from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.wire.primitives import (
    INT32,
    MALFORMED,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_nullable_string,
    read_string,
    read_uvarint,
)

Reader = Callable[[bytes, int], tuple[Any, int]]

EntityType: TypeAlias = Any
"""A dataclass of kio's (or shaped like one). mypy does not take `type[Any]` for hashable."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LONGEST_MS: Final = timedelta(days=999_999_998) // timedelta(milliseconds=1)


class FieldType(NamedTuple):
    """What a dataclass field's annotation says: element type, array or not, null allowed or not."""

    inner: Any
    is_array: bool
    is_nullable: bool
    is_entity: bool


def field_type(field: Field[Any]) -> FieldType:
    """Take a field's annotation apart: `T`, `T | None`, `tuple[T, ...]` or both."""
    inner, nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    return FieldType(inner, is_array, nullable, is_dataclass(inner))


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is UnionType:
        (inner,) = (part for part in get_args(annotation) if part is not NoneType)
        return inner, True
    return annotation, False


def zero_value(field: Field[Any]) -> Any:
    """What a field is when it is absent: its default, or nothing in the form of its type.

    An absent array or string is empty, not null, also where null would be allowed: so in Kafka.
    """
    if field.default is not MISSING:
        return field.default
    inner, is_array, is_nullable, is_entity = field_type(field)
    if is_array:
        return ()
    if is_entity:
        return None if is_nullable else zero_entity(inner)
    kafka_type = field.metadata["kafka_type"]
    if kafka_type == "datetime_i64" and is_nullable:
        return None
    return _ZERO[kafka_type]


def zero_entity(entity_type: EntityType) -> Any:
    """An entity all of whose fields are absent."""
    return entity_type(**{field.name: zero_value(field) for field in fields(entity_type)})


_ZERO: Final[dict[str, Any]] = {
    "int8": 0,
    "int16": 0,
    "int32": 0,
    "int64": 0,
    "uint16": 0,
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": _EPOCH,
}


class _Counted(bytes):
    """The bytes of a request long enough for too many elements, and how many it may still have."""

    elements_left = limits.MESSAGE_ELEMENTS_MAX

    def take(self, elements: int) -> None:
        self.elements_left -= elements
        if self.elements_left < 0:
            raise DecodeError(f"more than {limits.MESSAGE_ELEMENTS_MAX} elements in one request")


def read_message(entity_type: EntityType, body: bytes) -> Any:
    """The entity that `body` begins with; DecodeError for whatever is wrong with it.

    Bytes after the entity are let pass, as Kafka does.
    """
    if len(body) > limits.MESSAGE_ELEMENTS_MAX and entity_type.__type__.name == "request":
        body = _Counted(body)  # An element takes a byte at least, so only here can be too many.
    try:
        entity, _ = entity_reader(entity_type)(body, 0)
    except MALFORMED as problem:
        raise DecodeError(f"malformed {entity_type.__name__}: {problem}") from problem
    return entity


@cache
def entity_reader(entity_type: EntityType) -> Reader:
    """The reader of one entity class at its version."""
    flexible = entity_type.__flexible__
    plain: list[tuple[str, Reader]] = []
    tagged: dict[int, tuple[str, Reader]] = {}
    absent: dict[str, Any] = {}
    for field in fields(entity_type):
        reader = _field_reader(field, flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = (field.name, reader)
            absent[field.name] = zero_value(field)
        else:
            plain.append((field.name, reader))

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        values = absent.copy()
        for name, reader in plain:
            values[name], position = reader(buffer, position)
        if flexible:
            if buffer[position] == 0:
                position += 1
            else:
                position = _read_tagged(tagged, values, buffer, position)
        return entity_type(**values), position

    return read


def _read_tagged(
    tagged: dict[int, tuple[str, Reader]], values: dict[str, Any], buffer: bytes, position: int
) -> int:
    count, position = read_uvarint(buffer, position)
    if count > limits.TAGGED_FIELDS_MAX:
        raise DecodeError(f"{count} tagged fields in one section")
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = position + size
        if end > len(buffer):
            raise DecodeError("a tagged field is longer than its message")
        known = tagged.get(tag)
        if known is not None:
            name, reader = known
            values[name], position = reader(buffer, position)
            if position != end:
                raise DecodeError(f"the tagged field {name} is not of the size it claims")
        position = end
    return position


def _field_reader(field: Field[Any], flexible: bool) -> Reader:
    inner, is_array, is_nullable, is_entity = field_type(field)
    if is_array:
        element = (
            entity_reader(inner)
            if is_entity
            else _primitive_reader(field, flexible, nullable=False)
        )
        return _array_reader(element, _least_bytes(field, flexible), flexible, is_nullable)
    if is_entity:
        # A nullable structure under a tag would have another marker; Kafka 4.3 has none.
        return _nullable_reader(entity_reader(inner)) if is_nullable else entity_reader(inner)
    return _primitive_reader(field, flexible, is_nullable)


def _nullable_reader(reader: Reader) -> Reader:
    """A structure behind one byte that is negative for null (KIP-893)."""

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        if buffer[position] >= 0x80:
            return None, position + 1
        return reader(buffer, position + 1)

    return read


def _array_reader(element: Reader, element_bytes: int, flexible: bool, nullable: bool) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        count, position = read_count(
            buffer, position, flexible=flexible, element_bytes=element_bytes, nullable=nullable
        )
        if count < 0:
            return None, position
        if type(buffer) is _Counted:
            buffer.take(count)
        elements = []
        for _ in range(count):
            value, position = element(buffer, position)
            elements.append(value)
        return tuple(elements), position

    return read


def _least_bytes(field: Field[Any], flexible: bool) -> int:
    """The fewest bytes one element of this field (or the field itself, no array) can take."""
    inner, _, _, is_entity = field_type(field)
    if not is_entity:
        kafka_type = field.metadata["kafka_type"]
        if kafka_type == "string":
            return 1 if flexible else 2
        if kafka_type in ("bytes", "records"):
            return 1 if flexible else 4
        return _FIXED[kafka_type].size if kafka_type in _FIXED else 16
    total = 1 if flexible else 0
    for nested in fields(inner):
        _, is_array, is_nullable, is_nested_entity = field_type(nested)
        if "tag" in nested.metadata:
            continue
        if is_array:
            total += 1 if flexible else 4
        elif is_nested_entity and is_nullable:
            total += 1
        else:
            total += _least_bytes(nested, flexible)
    return max(total, 1)


def _primitive_reader(field: Field[Any], flexible: bool, nullable: bool) -> Reader:
    kafka_type = field.metadata["kafka_type"]
    if kafka_type == "string":
        if flexible:
            return read_compact_nullable_string if nullable else read_compact_string
        return read_nullable_string if nullable else read_string
    if kafka_type in ("bytes", "records"):
        return _bytes_reader(flexible, nullable)
    if kafka_type == "uuid":
        return _read_uuid
    if kafka_type == "datetime_i64":
        return _fixed_reader(_FIXED[kafka_type], _nullable_datetime if nullable else _datetime)
    return _fixed_reader(_FIXED[kafka_type], _MEANING.get(kafka_type))


def _fixed_reader(form: struct.Struct, meaning: Callable[[Any], Any] | None) -> Reader:
    size = form.size
    unpack_from = form.unpack_from

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        return unpack_from(buffer, position)[0], position + size

    def read_with_meaning(buffer: bytes, position: int) -> tuple[Any, int]:
        return meaning(unpack_from(buffer, position)[0]), position + size  # type: ignore[misc]

    return read if meaning is None else read_with_meaning


def _bytes_reader(flexible: bool, nullable: bool) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[bytes | None, int]:
        length, position = read_count(
            buffer, position, flexible=flexible, element_bytes=1, nullable=nullable
        )
        if length < 0:
            return None, position
        return buffer[position : position + length], position + length

    return read


def _read_uuid(buffer: bytes, position: int) -> tuple[UUID | None, int]:
    """A UUID; None for the zero one, which is Kafka's way to say that there is none."""
    raw = buffer[position : position + 16]
    if len(raw) < 16:
        raise DecodeError("the message ends within a uuid")
    return (UUID(bytes=raw) if any(raw) else None), position + 16


def _error_code(value: int) -> ErrorCode:
    """A code that a newer broker may have made up since is an unknown error."""
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.unknown_server_error


def _timedelta(milliseconds: int) -> timedelta:
    """A duration; what is longer than a timedelta can say becomes the longest."""
    return timedelta(milliseconds=max(-_LONGEST_MS, min(milliseconds, _LONGEST_MS)))


def _datetime(milliseconds: int) -> datetime:
    """A moment; later than the year 9999 becomes its last one, and -1 stays one before 1970."""
    return _EPOCH + timedelta(milliseconds=max(-1, min(milliseconds, _LATEST_MS)))


def _nullable_datetime(milliseconds: int) -> datetime | None:
    return None if milliseconds < 0 else _datetime(milliseconds)


_FIXED: Final = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": INT32,
    "int64": struct.Struct(">q"),
    "uint16": struct.Struct(">H"),
    "float64": struct.Struct(">d"),
    "bool": struct.Struct(">?"),
    "error_code": struct.Struct(">h"),
    "timedelta_i32": INT32,
    "timedelta_i64": struct.Struct(">q"),
    "datetime_i64": struct.Struct(">q"),
}

_MEANING: Final[dict[str, Callable[[Any], Any]]] = {
    "error_code": _error_code,
    "timedelta_i32": _timedelta,
    "timedelta_i64": _timedelta,
}
