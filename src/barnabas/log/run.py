"""A run of segments, oldest first: which of them holds an offset, and how to read on from there."""

from bisect import bisect_right
from typing import Final

from barnabas.log.reading import ReadPlan, ReadResult
from barnabas.log.segment import Segment
from barnabas.log.timestamps import TimestampSearch
from barnabas.log.txn_index import AbortedSearch, AbortedTransactions
from barnabas.model.check import require
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.files import Files

_HINTS_MAX: Final = 64
"""Readers whose next position is remembered; a reader that is forgotten pays one index look-up."""


class SegmentRun:
    """The segments of a log, and the offsets between which it lies."""

    def __init__(self, files: Files, directory: str, segments: list[Segment]) -> None:
        require(bool(segments), "a log has at least one segment")
        self.files = files
        self.directory = directory
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]
        self._hints: dict[int, tuple[Segment, int]] = {}
        self.start_offset = segments[0].base_offset
        self.end_offset = self._active.base_offset
        self.aborted = AbortedTransactions(files, directory)

    def plan_read(
        self, offset: int, max_bytes: int, up_to: int, *, at_least_one: bool
    ) -> ReadPlan | None:
        """How to read from `offset` on, below `up_to`; None when nothing is there yet."""
        if not self.start_offset <= offset <= self.end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"Offset {offset} is not between {self.start_offset} and {self.end_offset}.",
            )
        if offset >= up_to:
            return None
        hint = self._hints.get(offset)
        # A hint to the end of a segment that was rolled before it grew any more leads nowhere.
        exact = hint is not None and hint[1] < hint[0].size
        if hint is not None and exact:
            segment, start = hint
        else:
            segment = self._segment_of(offset)
            start = segment.position_in_memory(offset)
        end = segment.size
        return ReadPlan(segment, start, end, offset, up_to, max_bytes, at_least_one, exact)

    def _segment_of(self, offset: int) -> Segment:
        slot = max(bisect_right(self._bases, offset) - 1, 0)
        return self.segments[slot]

    def remember(self, plan: ReadPlan, result: ReadResult) -> None:
        """A reader in sequence will ask for what follows: remember where that lies."""
        segment, position = plan.segment, result.next_position
        if position >= segment.size and segment is not self._active:
            return
        if len(self._hints) >= _HINTS_MAX:
            self._hints.pop(next(iter(self._hints)))
        self._hints[result.next_offset] = (segment, position)

    def next_readable(self, offset: int) -> int | None:
        """The base of the segment after the one that `offset` falls in (compaction leaves gaps)."""
        slot = bisect_right(self._bases, offset)
        return self._bases[slot] if slot < len(self._bases) else None

    def timestamp_search(self, up_to: int) -> TimestampSearch:
        """A search for offsets by time, among records below `up_to`."""
        return TimestampSearch(tuple(self.segments), self.start_offset, up_to)

    def aborted_search(self, first: int, up_to: int) -> AbortedSearch | None:
        """How to find the aborted transactions among the offsets from `first` on, below `up_to`.

        None: there are none.
        """
        if not self.aborted:
            return None
        return self.aborted.search(self._segment_of(first).base_offset, first, up_to)

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.segments)
