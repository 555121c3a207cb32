"""The two sparse indexes of a segment: offset to position, and timestamp to offset.

An index is a cache: it can always be rebuilt from the segment, so it is kept in memory while the
segment grows, written when the segment is rolled, flushed or closed, and believed at start only
after a clean stop. The index of a segment that grows no more is not kept in memory: it is looked
up in its file, by halves, which takes some twenty reads of a few bytes.

A full segment of small batches has a quarter of a million entries, and its indexes are written on
the loop: files are made and read by whole columns, never entry by entry.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable
from itertools import islice
from operator import le, lt
from typing import Final

from barnabas.ports.files import Buffer

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12

_PADDING: Final = 2**63
"""Zeros behind the first entry are what Kafka allocates ahead: greater than any entry."""

ReadAt = Callable[[int, int], Buffer]
"""Length and position in, bytes out."""


class OffsetIndex:
    """Last offset of a batch (relative to the segment) to the position where the batch begins."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @classmethod
    def from_bytes(cls, data: bytes) -> "OffsetIndex":
        """Read a file; what follows the last rising entry (zeros, if Kafka made it) is dropped."""
        index = cls()
        flat = _native(array("i", _without_padding(data, OFFSET_ENTRY_BYTES)))
        offsets, positions = flat[0::2], flat[1::2]
        keep = min(_rising(offsets, lt), _not_negative(positions))
        index._offsets, index._positions = offsets[:keep], positions[:keep]
        return index

    def to_bytes(self) -> bytes:
        """The file's content."""
        flat = array("i", bytes(OFFSET_ENTRY_BYTES * len(self)))
        flat[0::2], flat[1::2] = self._offsets, self._positions
        return _native(flat).tobytes()

    def add(self, relative_offset: int, position: int) -> None:
        """Remember where a batch begins. Offsets must rise."""
        # Another thread may be searching: what it finds first must have its other half.
        self._positions.append(position)
        self._offsets.append(relative_offset)

    def floor(self, relative_offset: int) -> int:
        """A position at or before the batch that holds the offset; 0 when nothing is known."""
        slot = bisect_right(self._offsets, relative_offset) - 1
        return self._positions[slot] if slot >= 0 else 0

    def last(self) -> tuple[int, int] | None:
        """The newest entry."""
        return (self._offsets[-1], self._positions[-1]) if self._offsets else None


class TimeIndex:
    """Greatest timestamp so far to the offset (relative) of the batch that holds it."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @classmethod
    def from_bytes(cls, data: bytes) -> "TimeIndex":
        """Read a file; what follows the last rising entry is dropped."""
        index = cls()
        if len(data) >= 2 * TIME_ENTRY_BYTES and not data.rstrip(b"\0"):
            return index  # Room that Kafka has allocated, and no entry: not a moment in 1970.
        data = _without_padding(data, TIME_ENTRY_BYTES)
        timestamps = _native(array("q", _column(data, 0, 8)))
        offsets = _native(array("i", _column(data, 8, 4)))
        keep = min(_rising(timestamps, lt), _rising(offsets, le))
        index._timestamps, index._offsets = timestamps[:keep], offsets[:keep]
        return index

    def to_bytes(self) -> bytes:
        """The file's content."""
        timestamps, offsets = _native(self._timestamps[:]), _native(self._offsets[:])
        out = bytearray(TIME_ENTRY_BYTES * len(self))
        for at, data, width in ((0, timestamps.tobytes(), 8), (8, offsets.tobytes(), 4)):
            for byte in range(width):
                out[at + byte :: TIME_ENTRY_BYTES] = data[byte::width]
        return bytes(out)

    def maybe_add(self, timestamp: int, relative_offset: int) -> bool:
        """Add an entry if both timestamp and offset rise; otherwise it would tell nothing new."""
        if self._offsets and (
            timestamp <= self._timestamps[-1] or relative_offset < self._offsets[-1]
        ):
            return False
        if timestamp < 0 or relative_offset < 0:
            return False
        # Another thread may be searching: what it finds first must have its other half.
        self._offsets.append(relative_offset)
        self._timestamps.append(timestamp)
        return True

    def before(self, timestamp: int) -> tuple[int, int] | None:
        """The last older entry: a timestamp, and up to which offset no record is newer than it."""
        slot = bisect_right(self._timestamps, timestamp - 1) - 1
        return (self._timestamps[slot], self._offsets[slot]) if slot >= 0 else None

    def last(self) -> tuple[int, int] | None:
        """The newest entry: timestamp, relative offset."""
        return (self._timestamps[-1], self._offsets[-1]) if self._offsets else None


def stored_floor(read_at: ReadAt, size: int, relative_offset: int) -> int:
    """What `OffsetIndex.floor` says, from a file of `size` bytes.

    Only the entries on the way are seen, so damage shows as a position that leads nowhere.
    """

    def offset_at(slot: int) -> int:
        return _number(read_at(4, slot * OFFSET_ENTRY_BYTES)) or (_PADDING if slot else 0)

    slot = bisect_right(range(size // OFFSET_ENTRY_BYTES), relative_offset, key=offset_at) - 1
    return _number(read_at(4, slot * OFFSET_ENTRY_BYTES + 4)) if slot >= 0 else 0


def stored_before(read_at: ReadAt, size: int, timestamp: int) -> tuple[int, int] | None:
    """What `TimeIndex.before` says, from a file of `size` bytes, as far as that can be believed."""

    def timestamp_at(slot: int) -> int:
        return _number(read_at(8, slot * TIME_ENTRY_BYTES)) or (_PADDING if slot else 0)

    slot = bisect_right(range(size // TIME_ENTRY_BYTES), timestamp - 1, key=timestamp_at) - 1
    if slot < 0:
        return None
    return timestamp_at(slot), _number(read_at(4, slot * TIME_ENTRY_BYTES + 8))


def _number(data: Buffer) -> int:
    return int.from_bytes(data, "big", signed=True)


def _native(column: "array[int]") -> "array[int]":
    """From the files' byte order to the machine's, or back, in place."""
    if sys.byteorder == "little":
        column.byteswap()
    return column


def _column(data: bytes, at: int, width: int) -> bytes:
    """`width` bytes from `at` on of every entry of a time index: one slice for each byte."""
    column = bytearray(len(data) // TIME_ENTRY_BYTES * width)
    for byte in range(width):
        column[byte::width] = data[at + byte :: TIME_ENTRY_BYTES]
    return bytes(column)


def _without_padding(data: bytes, entry_bytes: int) -> bytes:
    """Whole entries without the zeros behind them. A first entry may be zeros, and one stays."""
    used = max(len(data.rstrip(b"\0")), entry_bytes)
    used += -used % entry_bytes
    return data[: min(used, len(data) - len(data) % entry_bytes)]


def _rising(column: "array[int]", in_order: Callable[[int, int], bool]) -> int:
    """How many values from the front are in order with the one before, the first not negative."""
    if not column or column[0] < 0:
        return 0
    wrong = bytes(map(in_order, column, islice(column, 1, None))).find(False)
    return len(column) if wrong < 0 else wrong + 1


def _not_negative(column: "array[int]") -> int:
    """How many values from the front are not negative."""
    wrong = bytes(map((0).__le__, column)).find(False)
    return len(column) if wrong < 0 else wrong
