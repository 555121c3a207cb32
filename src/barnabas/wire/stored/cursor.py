"""A place in a key or a value, read field by field; and the small writers that match it.

Every length is checked against the bytes that remain before anything is allocated. Running off
the end raises one of `primitives.MALFORMED`, which `codec` and `consumer_protocol` turn into
`DecodeError` once for a whole record.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from barnabas.model.errors import DecodeError
from barnabas.wire.primitives import (
    INT16,
    INT32,
    INT64,
    encode_count,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_nullable_string,
    read_string,
    read_tags,
    read_uvarint,
    uvarint,
)

Element = TypeVar("Element")

_UUID_BYTES: Final = 16


class Cursor:
    """Reads forwards. `flexible` says in which of Kafka's two forms lengths and tags are."""

    __slots__ = ("data", "flexible", "position")

    def __init__(self, data: bytes, position: int, *, flexible: bool) -> None:
        self.data = data
        self.position = position
        self.flexible = flexible

    def int8(self) -> int:
        """A signed byte."""
        value: int = _INT8.unpack_from(self.data, self.position)[0]
        self.position += 1
        return value

    def int32(self) -> int:
        """Four bytes."""
        value: int = INT32.unpack_from(self.data, self.position)[0]
        self.position += 4
        return value

    def int64(self) -> int:
        """Eight bytes."""
        value: int = INT64.unpack_from(self.data, self.position)[0]
        self.position += 8
        return value

    def uvarint(self) -> int:
        """A number of one to five bytes."""
        value, self.position = read_uvarint(self.data, self.position)
        return value

    def uuid(self) -> bytes:
        """The sixteen bytes of a topic id."""
        return self._take(_UUID_BYTES)

    def string(self) -> str:
        """Text that can not be null."""
        read = read_compact_string if self.flexible else read_string
        value, self.position = read(self.data, self.position)
        return value

    def nullable_string(self) -> str | None:
        """Text or null."""
        read = read_compact_nullable_string if self.flexible else read_nullable_string
        value, self.position = read(self.data, self.position)
        return value

    def nullable_blob(self) -> bytes | None:
        """Bytes or null, after their length."""
        length = self.count(1, nullable=True)
        return None if length < 0 else self._take(length)

    def blob(self) -> bytes:
        """Bytes that can not be null."""
        return self._take(self.count(1))

    def count(self, element_bytes: int, *, nullable: bool = False) -> int:
        """How many elements follow; checked, as each takes at least `element_bytes`."""
        count, self.position = read_count(
            self.data,
            self.position,
            flexible=self.flexible,
            element_bytes=element_bytes,
            nullable=nullable,
        )
        return count

    def int32s(self) -> tuple[int, ...]:
        """An array of numbers."""
        return self._int32s(self.count(4))

    def nullable_int32s(self) -> tuple[int, ...] | None:
        """An array of numbers, or null."""
        count = self.count(4, nullable=True)
        return None if count < 0 else self._int32s(count)

    def strings(self) -> tuple[str, ...]:
        """An array of texts."""
        return self.array(Cursor.string, 1 if self.flexible else 2)

    def array(self, read: Callable[["Cursor"], Element], element_bytes: int) -> tuple[Element, ...]:
        """An array of whatever `read` reads."""
        return tuple([read(self) for _ in range(self.count(element_bytes))])

    def tags(self) -> dict[int, "Cursor"]:
        """A cursor at each tagged field of the section that comes next; none in the older form."""
        if not self.flexible:
            return {}
        starts, self.position = read_tags(self.data, self.position)
        return {tag: Cursor(self.data, at, flexible=True) for tag, at in starts.items()}

    def _int32s(self, count: int) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack_from(f">{count}i", self.data, self.position)
        self.position += 4 * count
        return values

    def _take(self, length: int) -> bytes:
        start, self.position = self.position, self.position + length
        if self.position > len(self.data):
            raise DecodeError(f"{length} bytes are claimed beyond the end")
        return self.data[start : self.position]


_INT8: Final = struct.Struct(">b")

NO_TAGS: Final = b"\x00"
"""The section of tagged fields that says nothing."""


def version(data: bytes) -> int:
    """The number before every key (its kind) and every value (its version)."""
    number: int = INT16.unpack_from(data)[0]
    return number


def int8(value: int) -> bytes:
    """A signed byte."""
    return _INT8.pack(value)


def uuid(value: bytes) -> bytes:
    """The sixteen bytes of a topic id, or ValueError: any other length would shift what follows."""
    if len(value) != _UUID_BYTES:
        raise ValueError(f"a topic id of {len(value)} bytes")
    return value


def blob(data: bytes, *, flexible: bool) -> bytes:
    """Bytes after their length."""
    return encode_count(len(data), flexible) + data


def int32s(values: tuple[int, ...], *, flexible: bool) -> bytes:
    """An array of numbers."""
    return encode_count(len(values), flexible) + struct.pack(f">{len(values)}i", *values)


def array(elements: Iterable[bytes], *, flexible: bool) -> bytes:
    """An array of elements that are bytes already."""
    listed = list(elements)
    return encode_count(len(listed), flexible) + b"".join(listed)


def one_tag(content: bytes) -> bytes:
    """A section with tag 0 alone: no record written here has more than that one."""
    return b"\x01\x00" + uvarint(len(content)) + content
