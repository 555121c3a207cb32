"""Looking through what was written long ago, bit by bit, for damage that nobody has come across.

Only files are touched, so it may be done off the loop. What is found may be outdated by then: a
segment may have been removed, replaced or cut meanwhile, which is for the caller to see.
"""

from dataclasses import dataclass
from typing import NamedTuple

from barnabas.log import names
from barnabas.log.segment import Segment
from barnabas.wire.records.batch import HEADER_BYTES, parse_header, problem_of


class Place(NamedTuple):
    """How far a segment was looked through: up to which byte, and which offset comes next."""

    position: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is to be sound: a segment up to byte `end`, or up to offset `up_to`.

    A segment that is still written to is read only as far as it is synced; what lies behind that
    may be half written.
    """

    segment: Segment
    end: int
    up_to: int
    is_closed: bool
    """Whether the next segment begins at `up_to`."""
    is_seamless: bool = False
    """Whether it has to reach to there."""

    def is_through(self, place: Place) -> bool:
        """Whether there is nothing left to look at."""
        return place.position >= self.end or place.next_offset >= self.up_to

    def look(self, place: Place, max_bytes: int) -> tuple[Place, str | None]:
        """Look at some bytes, one batch at least; how far that went, and what is wrong there."""
        position, next_offset = place
        wanted = min(max(max_bytes, HEADER_BYTES), self.end - position)
        chunk = self.segment.file.pread(wanted, position)
        if len(chunk) < wanted:
            return place, self._tell(place, "the file is too short")
        at = 0
        while not self.is_through(Place(position + at, next_offset)):
            here = Place(position + at, next_offset)
            left = self.end - here.position
            if left < HEADER_BYTES:
                return here, self._tell(here, "it is cut short")
            if len(chunk) - at < HEADER_BYTES:
                break
            header = parse_header(chunk, at)
            if not HEADER_BYTES <= header.size <= left:
                return here, self._tell(here, f"a batch length of {header.length}")
            if header.size > len(chunk) - at:
                if at > 0:
                    break
                chunk = self.segment.file.pread(header.size, position)
            problem = problem_of(chunk, at, header)
            if problem is None and not next_offset <= header.base_offset <= header.last_offset:
                problem = f"offset {header.base_offset} where {next_offset} was next"
            if problem is None and self.is_closed and header.last_offset >= self.up_to:
                problem = f"offset {header.last_offset} where {self.up_to} is the end"
            if problem is not None:
                return here, self._tell(here, problem)
            at += header.size
            next_offset = header.last_offset + 1
        here = Place(position + at, next_offset)
        if self.is_seamless and here.position >= self.end and next_offset < self.up_to:
            return here, self._tell(here, f"nothing is there up to {self.up_to}")
        return here, None

    def _tell(self, place: Place, problem: str) -> str:
        path = self.segment.path(names.LOG)
        return f"{path} at byte {place.position}, from offset {place.next_offset} on: {problem}"
