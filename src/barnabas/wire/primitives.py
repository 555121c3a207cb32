"""The smallest pieces of the protocol: varints, strings, tagged sections.

Readers take a buffer and a position and give the value and the next position. They raise
`DecodeError` for what is wrong in itself; running off the end raises `IndexError` or
`struct.error`, which the callers turn into `DecodeError` once for a whole message
(`MALFORMED` names them).
"""

import struct
from typing import Final

from barnabas.model import limits
from barnabas.model.errors import DecodeError

Readable = bytes | bytearray | memoryview

MALFORMED: Final = (struct.error, IndexError, UnicodeDecodeError)
"""What a reader of this room may raise for bad bytes, besides `DecodeError`."""

STRING_BYTES_MAX: Final = 0x7FFF
"""Kafka's own bound, also where a compact length could say more."""

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")

_SMALL_UVARINTS: Final = tuple(bytes((value,)) for value in range(128))


def read_uvarint(buffer: Readable, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and 32 bits."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value = byte & 0x7F
    for shift in (7, 14, 21):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    byte = buffer[position]
    if byte > 0x0F:
        raise DecodeError("a varint is longer than 32 bits")
    return value | byte << 28, position + 1


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 128:
        return _SMALL_UVARINTS[value]
    encoded = bytearray()
    while value >= 128:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tagged_fields(buffer: Readable, position: int) -> int:
    """Step over a section of tagged fields that means nothing here; nothing of it is kept."""
    count, position = read_uvarint(buffer, position)
    if count > limits.TAGGED_FIELDS_MAX:
        raise DecodeError(f"{count} tagged fields in one section")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise DecodeError("a tagged field is longer than its message")
    return position


def read_tags(buffer: Readable, position: int) -> tuple[dict[int, int], int]:
    """Where each tagged field of a section begins, by tag; and the position after the section."""
    starts: dict[int, int] = {}
    count, position = read_uvarint(buffer, position)
    if count > limits.TAGGED_FIELDS_MAX:
        raise DecodeError(f"{count} tagged fields in one section")
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        starts[tag] = position
        position += size
        if position > len(buffer):
            raise DecodeError("a tagged field is longer than its message")
    return starts, position


def read_text(buffer: Readable, position: int, length: int) -> tuple[str, int]:
    """UTF-8 text of a known length."""
    end = position + length
    if length > STRING_BYTES_MAX or end > len(buffer):
        raise DecodeError(f"a string claims {length} bytes")
    return str(buffer[position:end], "utf-8"), end


def read_compact_nullable_string(buffer: Readable, position: int) -> tuple[str | None, int]:
    """A string as flexible versions have it, or null."""
    length, position = read_uvarint(buffer, position)
    if length == 0:
        return None, position
    return read_text(buffer, position, length - 1)


def read_compact_string(buffer: Readable, position: int) -> tuple[str, int]:
    """A string as flexible versions have it; null is refused."""
    length, position = read_uvarint(buffer, position)
    if length == 0:
        raise DecodeError("a string that can not be null is null")
    return read_text(buffer, position, length - 1)


def read_nullable_string(buffer: Readable, position: int) -> tuple[str | None, int]:
    """A string as the older versions have it, or null (any negative length, as in Kafka)."""
    (length,) = INT16.unpack_from(buffer, position)
    if length < 0:
        return None, position + 2
    return read_text(buffer, position + 2, length)


def read_string(buffer: Readable, position: int) -> tuple[str, int]:
    """A string as the older versions have it; null is refused."""
    (length,) = INT16.unpack_from(buffer, position)
    if length < 0:
        raise DecodeError("a string that can not be null is null")
    return read_text(buffer, position + 2, length)


def read_count(
    buffer: Readable, position: int, *, flexible: bool, element_bytes: int, nullable: bool = False
) -> tuple[int, int]:
    """The length of an array, -1 for null where null is allowed.

    Checked against the bytes that remain, each element taking at least `element_bytes`, so
    that a caller may allocate for it.
    """
    if flexible:
        count, position = read_uvarint(buffer, position)
        count -= 1
    else:
        (count,) = INT32.unpack_from(buffer, position)
        position += 4
        count = max(count, -1)
    if count < 0 and not nullable:
        raise DecodeError("an array that can not be null is null")
    if count * element_bytes > len(buffer) - position:
        raise DecodeError(f"an array claims {count} elements in {len(buffer) - position} bytes")
    return count, position


def encode_string(text: str | None, flexible: bool) -> bytes:
    """A nullable string in either form."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    encoded = text.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise ValueError(f"a string of {len(encoded)} bytes does not fit into the protocol")
    if flexible:
        return uvarint(len(encoded) + 1) + encoded
    return INT16.pack(len(encoded)) + encoded


def encode_count(count: int, flexible: bool) -> bytes:
    """The length of an array, -1 for null, in either form."""
    return uvarint(count + 1) if flexible else INT32.pack(count)
