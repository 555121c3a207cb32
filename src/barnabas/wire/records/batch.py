"""The header of a record batch (magic 2): all a broker reads of what it stores and serves.

    0  base_offset i64        21  attributes i16          43  producer_id i64
    8  length i32             23  last_offset_delta i32   51  producer_epoch i16
    12 leader_epoch i32       27  base_timestamp i64      53  base_sequence i32
    16 magic i8               35  max_timestamp i64       57  count i32
    17 crc u32                                            61  records

The CRC-32C covers everything from `attributes` on, so base offset and leader epoch can be
stamped in place without touching it.
"""

import struct
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.model.errors import DecodeError

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""base_offset and length: what `length` does not count."""
MAGIC: Final = 2
NO_PRODUCER: Final = -1
NO_TIMESTAMP: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_STAMP_OFFSET: Final = struct.Struct(">q")
_STAMP_EPOCH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_MAX_TIMESTAMP_AT: Final = 35
CRC_FROM: Final = 21


class BatchHeader(NamedTuple):
    """The 61 bytes in front of a batch's records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count(), which nobody needs here

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record (kept when compaction removes that record)."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; sequences wrap at 2^31."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Written by a coordinator (commit or abort), never shown to users."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)


_as_header = partial(tuple.__new__, BatchHeader)
"""What `BatchHeader._make` does, at half the price: it counts, and there are always thirteen."""


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read a header; says nothing yet about whether the batch is whole or sound."""
    if len(buffer) - position < HEADER_BYTES:
        raise DecodeError(f"a record batch needs {HEADER_BYTES} bytes of header")
    return _as_header(_HEADER.unpack_from(buffer, position))


def crc_of(buffer: Buffer, position: int, size: int) -> int:
    """CRC-32C of the batch of `size` bytes that begins at `position`."""
    return crc32c(memoryview(buffer)[position + CRC_FROM : position + size])


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch in place; both lie outside the CRC."""
    _STAMP_OFFSET.pack_into(buffer, position, base_offset)
    _STAMP_EPOCH.pack_into(buffer, position + LOG_OVERHEAD_BYTES, leader_epoch)


def stamp_append_time(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, now_ms: int
) -> BatchHeader:
    """Turn the batch's timestamps into "when the broker took it", and renew the CRC."""
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, now_ms)
    return _stamp_attributes(buffer, position, header, header.attributes | LOG_APPEND_TIME)


def stamp_create_time(
    buffer: bytearray | memoryview, position: int, header: BatchHeader
) -> BatchHeader:
    """Take back a client's claim that its timestamps are the broker's, and renew the CRC."""
    return _stamp_attributes(buffer, position, header, header.attributes & ~LOG_APPEND_TIME)


def _stamp_attributes(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, attributes: int
) -> BatchHeader:
    _ATTRIBUTES.pack_into(buffer, position + CRC_FROM, attributes)
    _CRC.pack_into(buffer, position + _CRC_AT, crc_of(buffer, position, header.size))
    return parse_header(buffer, position)


def assemble(header: BatchHeader, records: Buffer) -> bytes:
    """The whole batch of this header and these (compressed) records; length and CRC are new."""
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(records)
    packed = bytearray(HEADER_BYTES)
    _HEADER.pack_into(packed, 0, *header._replace(length=length, magic=MAGIC, crc=0))
    # Of the two parts one after the other, so that the records are copied only once.
    crc = crc32c(records, crc32c(memoryview(packed)[CRC_FROM:]))
    _CRC.pack_into(packed, _CRC_AT, crc)
    return b"".join((packed, records))


def problem_of(buffer: Buffer, position: int, header: BatchHeader) -> str | None:
    """Why the batch at `position` is not whole and sound, or None when it is."""
    if header.magic != MAGIC:
        return f"magic {header.magic} instead of {MAGIC}"
    if header.length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        return f"a batch length of {header.length}"
    if position + header.size > len(buffer):
        return "cut short"
    if crc_of(buffer, position, header.size) != header.crc:
        return "its checksum does not match"
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return "negative offsets"
    return None


def walk(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch, unchecked; stops where no whole one follows."""
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = _as_header(_HEADER.unpack_from(buffer, position))
        if header.length < HEADER_BYTES - LOG_OVERHEAD_BYTES or position + header.size > end:
            return
        yield position, header
        position += header.size
