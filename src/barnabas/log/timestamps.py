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
            if segment.max_timestamp < timestamp:
                continue
            found = self._first_in(segment, timestamp)
            if found is not None:
                return found if found.offset < self.up_to else None
        return None

    def latest(self) -> TimedOffset | None:
        """The first record that has the greatest timestamp of all."""
        best: TimedOffset | None = None
        for segment in sorted(self.segments, key=lambda s: s.max_timestamp, reverse=True):
            if segment.max_timestamp < 0 or (best and segment.max_timestamp < best.timestamp):
                break
            found = self._first_in(segment, segment.max_timestamp)
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


def _start_of_search(segment: Segment, timestamp: int) -> int:
    """A position before which every record is older than `timestamp`.

    The indexes tell it, which are only a cache: the batch that a time entry speaks of must be
    there and have that very timestamp as its greatest. Otherwise the search begins at 0.
    """
    entry = segment.last_before(timestamp)
    if entry is None:
        return 0
    greatest, offset = entry
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
        return 0
    if position is None or size - position < HEADER_BYTES:
        return 0
    header = parse_header(pread(HEADER_BYTES, position))
    borne_out = header.base_offset <= offset and header.max_timestamp == greatest
    return position if borne_out else 0
