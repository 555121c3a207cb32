"""Record batches to send again and again: 100-byte values, no keys, no producer id.

Without a producer id a batch is valid however often it arrives, so one prebuilt batch serves a
whole run and the generator spends its time on sockets instead of on encoding.
"""

import struct
import time
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.model.check import require

VALUE_BYTES: Final = 100
HEADER_BYTES: Final = 61
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_VALUE: Final = (b"All the news that Barnabas carries fits in one hundred bytes. " * 2)[
    :VALUE_BYTES
]


class Batch(NamedTuple):
    """One encoded record batch and how many records it holds."""

    data: bytes
    records: int


def varint(value: int) -> bytes:
    """A zigzag varint, as record fields are written."""
    return unsigned_varint((value << 1) ^ (value >> 63))


def unsigned_varint(value: int) -> bytes:
    """A plain varint, as compact lengths are written."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_record(offset_delta: int) -> bytes:
    """A record without key and headers."""
    body = b"".join(
        (b"\0", varint(0), varint(offset_delta), varint(-1), varint(VALUE_BYTES), _VALUE, b"\0")
    )
    return varint(len(body)) + body


def build_batch(size_max: int, now_ms: int | None = None) -> Batch:
    """The fullest batch of at most `size_max` bytes; one record when not even two fit."""
    records: list[bytes] = [encode_record(0)]
    size = HEADER_BYTES + len(records[0])
    while True:
        record = encode_record(len(records))
        if size + len(record) > size_max:
            break
        records.append(record)
        size += len(record)
    return _seal(records, time.time_ns() // 1_000_000 if now_ms is None else now_ms)


def _seal(records: list[bytes], now_ms: int) -> Batch:
    count = len(records)
    covered = _AFTER_CRC.pack(0, count - 1, now_ms, now_ms, -1, -1, -1, count) + b"".join(records)
    length = 4 + 1 + 4 + len(covered)
    data = _BEFORE_CRC.pack(0, length, -1, 2, crc32c(covered)) + covered
    require(len(data) == length + 12, "a batch's length counts all but its first 12 bytes")
    return Batch(data, count)
