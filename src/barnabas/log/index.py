"""The two sparse indexes of a segment: offset to position, and timestamp to offset.

An index is a cache: it can always be rebuilt from the segment, so it is kept in memory while the
segment grows, written when the segment is rolled, flushed or closed, and believed at start only
after a clean stop.
"""

import sys
from array import array
from bisect import bisect_right
from itertools import chain
from struct import iter_unpack, pack

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


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
        """Read a file; Kafka's pre-allocated zeros behind the last entry are dropped."""
        index = cls()
        usable = len(data) - len(data) % OFFSET_ENTRY_BYTES
        flat = array("i")
        flat.frombytes(data[:usable])
        if sys.byteorder == "little":
            flat.byteswap()
        last = -1
        for offset, position in zip(flat[0::2], flat[1::2], strict=True):
            if offset <= last or position < 0:
                break
            if offset == 0 and position == 0 and len(index) > 0:
                break
            index.add(offset, position)
            last = offset
        return index

    def to_bytes(self) -> bytes:
        """The file's content."""
        flat = array("i", chain.from_iterable(zip(self._offsets, self._positions, strict=True)))
        if sys.byteorder == "little":
            flat.byteswap()
        return flat.tobytes()

    def add(self, relative_offset: int, position: int) -> None:
        """Remember where a batch begins. Offsets must rise."""
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def floor(self, relative_offset: int) -> int:
        """A position at or before the batch that holds the offset; 0 when nothing is known."""
        slot = bisect_right(self._offsets, relative_offset) - 1
        return self._positions[slot] if slot >= 0 else 0

    def last(self) -> tuple[int, int] | None:
        """The newest entry."""
        return (self._offsets[-1], self._positions[-1]) if self._offsets else None

    def truncate(self, size: int) -> None:
        """Forget entries for batches at or beyond `size` bytes into the segment."""
        keep = len(self._positions)
        while keep and self._positions[keep - 1] >= size:
            keep -= 1
        del self._offsets[keep:], self._positions[keep:]


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
        usable = len(data) - len(data) % TIME_ENTRY_BYTES
        if usable > TIME_ENTRY_BYTES and not any(data):
            return index  # Room that Kafka has allocated, and no entry: not a moment in 1970.
        for timestamp, offset in iter_unpack(">qi", data[:usable]):
            if not index.maybe_add(timestamp, offset):
                break
        return index

    def to_bytes(self) -> bytes:
        """The file's content."""
        entries = zip(self._timestamps, self._offsets, strict=True)
        return b"".join(pack(">qi", timestamp, offset) for timestamp, offset in entries)

    def maybe_add(self, timestamp: int, relative_offset: int) -> bool:
        """Add an entry if both timestamp and offset rise; otherwise it would tell nothing new."""
        if self._offsets and (
            timestamp <= self._timestamps[-1] or relative_offset < self._offsets[-1]
        ):
            return False
        if timestamp < 0 or relative_offset < 0:
            return False
        self._timestamps.append(timestamp)
        self._offsets.append(relative_offset)
        return True

    def floor(self, timestamp: int) -> int:
        """Relative offset up to which every record is older than `timestamp`; 0 if unknown."""
        slot = bisect_right(self._timestamps, timestamp - 1) - 1
        return self._offsets[slot] if slot >= 0 else 0

    def last(self) -> tuple[int, int] | None:
        """The newest entry: timestamp, relative offset."""
        return (self._timestamps[-1], self._offsets[-1]) if self._offsets else None

    def truncate(self, relative_offset: int) -> None:
        """Forget entries at or beyond an offset."""
        keep = len(self._offsets)
        while keep and self._offsets[keep - 1] >= relative_offset:
            keep -= 1
        del self._timestamps[keep:], self._offsets[keep:]
