"""Offsets by time: the first record at or after a moment, and the record with the latest one."""

from typing import NamedTuple

from barnabas.log.reading import all_batches, find_batch, is_plausible
from barnabas.log.segment import NOT_IN_MEMORY, Segment
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import HEADER_BYTES, parse_header
from barnabas.wire.records.record import decode_batch


class TimedOffset(NamedTuple):
    """A record's offset and timestamp."""

    offset: int
    timestamp: int


def _newer_then_lower(found: TimedOffset) -> tuple[int, int]:
    return found.timestamp, -found.offset


class TimestampSearch(NamedTuple):
    """A search over segments that may wait for the disk: run it off the loop.

    Raises CORRUPT_MESSAGE or DecodeError where damage may hide what is looked for.
    """

    segments: tuple[Segment, ...]
    start_offset: int
    up_to: int

    def first_at_or_after(self, timestamp: int) -> TimedOffset | None:
        """The first record that is not older than `timestamp`."""
        for segment in self.segments:
            newest = _newest(segment)
            if newest is not None and newest < timestamp:
                continue
            found = self._first_in(segment, timestamp)
            if found is not None:
                return found if found.offset < self.up_to else None
        return None

    def latest(self) -> TimedOffset | None:
        """The first record that has the greatest timestamp of all."""
        best: TimedOffset | None = None
        newest = {segment: _newest(segment) for segment in self.segments}
        for segment in sorted(self.segments, key=lambda each: _known_last(newest[each])):
            greatest = newest[segment]
            if greatest is None:
                found = self._latest_in(segment)
            elif greatest < 0 or (best and greatest < best.timestamp):
                break
            else:
                found = self._first_in(segment, greatest)
                if found is None or found.offset >= self.up_to:
                    # That record is deleted, or not committed: look at all the others.
                    found = self._latest_in(segment)
            best = max(filter(None, (best, found)), key=_newer_then_lower, default=None)
        return best

    def _latest_in(self, segment: Segment) -> TimedOffset | None:
        visible = (
            TimedOffset(record.offset, record.timestamp)
            for position, header in all_batches(segment, 0, segment.size)
            if header.last_offset >= self.start_offset and header.base_offset < self.up_to
            for record in decode_batch(segment.file.pread(header.size, position))
            if self.start_offset <= record.offset < self.up_to and record.timestamp >= 0
        )
        return max(visible, key=lambda record: record.timestamp, default=None)

    def _first_in(self, segment: Segment, timestamp: int) -> TimedOffset | None:
        start = _start_of_search(segment, timestamp)
        for position, header in all_batches(segment, start, segment.size):
            if header.max_timestamp < timestamp or header.last_offset < self.start_offset:
                continue
            for record in decode_batch(segment.file.pread(header.size, position)):
                if record.timestamp >= timestamp and record.offset >= self.start_offset:
                    return TimedOffset(record.offset, record.timestamp)
        return None


def _known_last(newest: int | None) -> tuple[bool, int]:
    """Segments of which nothing is known come first, the others by their greatest timestamp."""
    return newest is not None, -(newest or 0)


def _newest(segment: Segment) -> int | None:
    """The greatest timestamp of a segment; None when its index does not tell it credibly."""
    if not segment.bounds_proven and segment.size > 0:
        greatest, offset = segment.max_timestamp, segment.max_timestamp_offset
        if greatest < 0 or _position_of(segment, offset, greatest) is None:
            return None
        segment.bounds_proven = True
    return segment.max_timestamp


def _start_of_search(segment: Segment, timestamp: int) -> int:
    """A position before which every record is older than `timestamp`, as the indexes tell it."""
    entry = segment.last_before(timestamp)
    if entry is None:
        return 0
    return _position_of(segment, entry[1], entry[0]) or 0


def _position_of(segment: Segment, offset: int, greatest: int) -> int | None:
    """Where the batch lies that a time entry speaks of.

    An index is only a cache: None unless the batch is there and has that very timestamp as its
    greatest.
    """
    pread = segment.file.pread
    near = segment.position_in_memory(offset)
    if near == NOT_IN_MEMORY:
        near = segment.position_in_file(offset)
    size = segment.size  # Only now: the segment may be growing, and its indexes with it.
    try:
        if near < 0 or not is_plausible(pread, near, size, offset):
            near = 0
        position = find_batch(pread, near, size, offset)
    except KafkaError as error:
        if error.code is not ErrorCode.corrupt_message:
            raise
        return None
    if position is None or size - position < HEADER_BYTES:
        return None
    header = parse_header(pread(HEADER_BYTES, position))
    borne_out = header.base_offset <= offset and header.max_timestamp == greatest
    return position if borne_out else None
