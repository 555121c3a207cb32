"""Record batches made and read by hand, wrong ones too: what no client library would ever send."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
CRC_FROM: Final = 21
FIXED_TIME_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, kw_only=True)
class Rec:
    """One record as a producer sees it."""

    value: bytes | None = b"v"
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = FIXED_TIME_MS


@dataclass(frozen=True, kw_only=True)
class Lies:
    """Header fields that shall not be what the records say."""

    magic: int = 2
    crc_xor: int = 0
    count: int | None = None
    last_offset_delta: int | None = None
    base_offset: int = 0
    max_timestamp: int | None = None


def make_batch(
    records: Sequence[Rec],
    *,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    lies: Lies | None = None,
) -> bytes:
    """An uncompressed batch; `producer` is (id, epoch, base sequence)."""
    lies = lies or Lies()
    base = records[0].timestamp if records else -1
    body = b"".join(_record(n, record, base) for n, record in enumerate(records))
    count = len(records) if lies.count is None else lies.count
    delta = count - 1 if lies.last_offset_delta is None else lies.last_offset_delta
    highest = max((record.timestamp for record in records), default=-1)
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        delta,
        base,
        highest if lies.max_timestamp is None else lies.max_timestamp,
        *producer,
        count,
    )
    crc = crc32c.crc32c(covered + body) ^ lies.crc_xor
    front = struct.pack(
        ">qiibI", lies.base_offset, 9 + len(covered) + len(body), -1, lies.magic, crc
    )
    return front + covered + body


def summary(data: bytes) -> Any:
    """What the batches in some fetched bytes say of themselves; other bytes as hexadecimal."""
    found = list(headers(data))
    if not found and data:
        return data.hex()
    return found


def headers(data: bytes) -> Iterator[dict[str, int]]:
    """The header of each whole batch, as named numbers."""
    at = 0
    while at + HEADER.size <= len(data):
        fields = HEADER.unpack_from(data, at)
        if at + 12 + fields[1] > len(data):
            return
        yield {
            "base_offset": fields[0],
            "leader_epoch": fields[2],
            "magic": fields[3],
            "attributes": fields[5],
            "last_offset_delta": fields[6],
            "base_timestamp": fields[7],
            "max_timestamp": fields[8],
            "producer_id": fields[9],
            "producer_epoch": fields[10],
            "base_sequence": fields[11],
            "count": fields[12],
        }
        at += 12 + fields[1]


def _record(delta: int, record: Rec, base_timestamp: int) -> bytes:
    parts = [b"\0", _varint(record.timestamp - base_timestamp), _varint(delta)]
    parts += _sized(record.key)
    parts += _sized(record.value)
    parts.append(_varint(len(record.headers)))
    for name, value in record.headers:
        parts += _sized(name.encode())
        parts += _sized(value)
    body = b"".join(parts)
    return _varint(len(body)) + body


def _sized(data: bytes | None) -> Iterable[bytes]:
    return [_varint(-1)] if data is None else [_varint(len(data)), data]


def _varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
