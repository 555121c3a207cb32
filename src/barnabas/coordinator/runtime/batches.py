"""Records of an internal topic, to batches and back."""

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import NewRecord, decode_batch, encode_batch

Pair = tuple[bytes, bytes | None]
"""Key and value; no value removes the key."""

BATCH_BYTES_MAX: Final = 512 * 1024
"""Where a batch ends when there is more to write: a reader holds whole batches in memory."""


def pack(pairs: Iterable[Pair], now_ms: int) -> Iterator[bytes]:
    """One batch, unless the records are large: what is written together is read together."""
    records: list[NewRecord] = []
    size = 0
    for key, value in pairs:
        records.append((now_ms, key, value, []))
        size += len(key) + len(value or b"")
        if size >= BATCH_BYTES_MAX:
            yield encode_batch(records)
            records, size = [], 0
    if records:
        yield encode_batch(records)


def unpack(data: memoryview) -> Iterator[tuple[int, list[Pair]]]:
    """For each whole batch the offset that follows it, and its records. DecodeError if damaged."""
    for position, header in walk(data):
        following = header.last_offset + 1
        if header.is_control:
            yield following, []
            continue
        records = decode_batch(data, position)
        yield following, [(each.key, each.value) for each in records if each.key is not None]
