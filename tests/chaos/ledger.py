"""What the broker holds, read after each restart and compared with all that was known of it."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chaos import talk
from tests.chaos.journal import Mark, Notes, mark_of
from tests.chaos.talk import Place

from barnabas.link.sync import Link
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch

_LINES_MAX = 5
"""Complaints of one kind about one partition; the rest would only repeat them."""
_REPEATS_WITHIN = 20_000
"""How far back in a partition the first copy of a record lies that a plain producer repeats."""


@dataclass
class Page:
    """One partition as it was last read."""

    size: int = 0
    """Bytes of all its batches."""
    digest: str = hashlib.sha256().hexdigest()
    """Of these bytes: what was once read must be read again, bit for bit."""
    marks: list[Mark] = field(default_factory=list)
    """By offset; logs begin at 0 here, because nothing is deleted from them."""
    latest: dict[str, int] = field(default_factory=dict)
    """The highest number of each writer."""


class Ledger:
    """Every partition's page, and the complaints about them."""

    def __init__(self, is_idempotent: Callable[[str], bool]) -> None:
        self.pages: dict[Place, Page] = defaultdict(Page)
        self.problems: list[str] = []
        self._is_idempotent = is_idempotent

    def read(self, link: Link, place: Place) -> None:
        """Read a partition from its start to its present end."""
        page = self.pages[place]
        end = talk.offset_of(link, place, -1)
        if talk.offset_of(link, place, -2) != 0:
            self._complain(place, "the log does not begin at 0 any more")
        data = b"".join(_stretches(link, place, end))
        if hashlib.sha256(data[: page.size]).hexdigest() != page.digest:
            self._complain(place, f"the first {page.size} bytes are not what they were")
            return
        self._append(place, page, data, end)
        page.size, page.digest = len(data), hashlib.sha256(data).hexdigest()

    def _append(self, place: Place, page: Page, data: bytes, end: int) -> None:
        for position, header in walk(data, page.size):
            if header.base_offset != len(page.marks):
                self._complain(place, f"{header.base_offset} where {len(page.marks)} was next")
                return
            for record in decode_batch(data, position):
                self._take(place, page, record.offset, mark_of(record.value))
        if len(page.marks) < end:
            self._complain(place, f"{len(page.marks)} records, but the end is {end}")

    def _take(self, place: Place, page: Page, offset: int, mark: Mark) -> None:
        if offset != len(page.marks):
            self._complain(place, f"offset {offset} where {len(page.marks)} was next")
        latest = page.latest.get(mark.writer, -1)
        if mark.number > latest:
            page.latest[mark.writer] = mark.number
        elif self._is_idempotent(mark.writer):
            self._complain(place, f"{mark} at {offset} is a duplicate, or behind {latest}")
        elif mark not in page.marks[-_REPEATS_WITHIN:]:
            self._complain(place, f"{mark} at {offset} comes after {latest}")
        page.marks.append(mark)

    def compare(self, notes: Notes) -> None:
        """Whatever a producer was told, and whatever a consumer saw, is in the pages."""
        for what, noted in (("acknowledged", notes.acknowledged), ("seen", notes.seen)):
            for place, offsets in noted.items():
                wrong = list(self._missing(self.pages[place], offsets))
                for line in wrong[:_LINES_MAX]:
                    self._complain(place, f"{what}: {line} ({len(wrong)} like it)")
        for place, marks in notes.placeless.items():
            lost = marks - set(self.pages[place].marks)
            if lost:
                self._complain(place, f"{len(lost)} acknowledged without an offset are not there")

    @staticmethod
    def _missing(page: Page, offsets: dict[int, Mark]) -> Iterator[str]:
        for offset, mark in offsets.items():
            if offset >= len(page.marks):
                yield f"{mark} at {offset} is lost, the log ends at {len(page.marks)}"
            elif page.marks[offset] != mark:
                yield f"{mark} at {offset} became {page.marks[offset]}"

    def _complain(self, place: Place, problem: str) -> None:
        self.problems.append(f"{place[0]}-{place[1]}: {problem}")

    @property
    def records(self) -> int:
        """In all partitions."""
        return sum(len(page.marks) for page in self.pages.values())

    def to_json(self) -> dict[str, Any]:
        """What must still be true when a later run goes on."""
        return {
            f"{topic}/{partition}": [page.size, page.digest]
            for (topic, partition), page in self.pages.items()
        }

    def resume(self, link: Link, saved: dict[str, Any]) -> None:
        """Read again what an earlier run had read."""
        for name, (size, digest) in saved.items():
            topic, _, partition = name.rpartition("/")
            place = topic, int(partition)
            self.read(link, place)
            data = b"".join(_stretches(link, place, talk.offset_of(link, place, -1)))
            if hashlib.sha256(data[:size]).hexdigest() != digest:
                self._complain(place, "the bytes of the earlier run are not what they were")


def _stretches(link: Link, place: Place, end: int) -> Iterator[bytes]:
    """The batches from offset 0 to `end`, in answers of a few megabytes."""
    offset = 0
    while offset < end:
        data = talk.fetch(link, place, offset)
        last = None
        size = 0
        for position, header in walk(data):
            if header.base_offset >= end:
                break
            last, size = header.last_offset, position + header.size
        if last is None:
            return
        yield data[:size]
        offset = last + 1
