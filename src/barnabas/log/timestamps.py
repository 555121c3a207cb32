"""Offsets by time: the first record at or after a moment, and the record with the latest one."""

from typing import NamedTuple

from barnabas.log.reading import batches
from barnabas.log.segment import Segment
from barnabas.wire.records.record import decode_batch


class TimedOffset(NamedTuple):
    """A record's offset and timestamp."""

    offset: int
    timestamp: int


class TimestampSearch(NamedTuple):
    """A search over segments that may wait for the disk: run it off the loop."""

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
        stamped = [s for s in self.segments if s.max_timestamp >= 0]
        if not stamped:
            return None
        newest = max(stamped, key=lambda segment: segment.max_timestamp)
        return self.first_at_or_after(newest.max_timestamp)

    def _first_in(self, segment: Segment, timestamp: int) -> TimedOffset | None:
        start = segment.offset_index.floor(segment.time_index.floor(timestamp))
        for position, header in batches(segment, start, segment.size):
            if header.max_timestamp < timestamp or header.last_offset < self.start_offset:
                continue
            for record in decode_batch(segment.file.pread(header.size, position)):
                if record.timestamp >= timestamp and record.offset >= self.start_offset:
                    return TimedOffset(record.offset, record.timestamp)
        return None
