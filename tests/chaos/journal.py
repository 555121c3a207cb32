"""What clients send, what they were told, and what they saw."""

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.chaos.talk import Place

_FILLER: Final = b"barnabas " * 64
_LENGTHS: Final = 400


class Mark(NamedTuple):
    """Who wrote a record, and as which of its own."""

    writer: str
    number: int


def value_of(mark: Mark) -> bytes:
    """The bytes of a record: its mark, then as much filler as the number says."""
    return b"%s:%d:%s" % (mark.writer.encode(), mark.number, _FILLER[: mark.number % _LENGTHS])


def mark_of(value: bytes | None) -> Mark:
    """The mark of a record. ValueError unless it is as it was written, to the last byte."""
    writer, number, _ = (value or b"").split(b":", 2)
    mark = Mark(writer.decode(), int(number))
    if value != value_of(mark):
        raise ValueError(f"the record of {mark} is not as it was written")
    return mark


@dataclass
class Notes:
    """Marks by place and offset."""

    acknowledged: dict[Place, dict[int, Mark]] = field(default_factory=lambda: defaultdict(dict))
    placeless: dict[Place, set[Mark]] = field(default_factory=lambda: defaultdict(set))
    """Acknowledged without an offset (a repeat that the broker only said it has)."""
    seen: dict[Place, dict[int, Mark]] = field(default_factory=lambda: defaultdict(dict))


class Journal:
    """Written by every client thread, taken by the checker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes = Notes()
        self._problems: list[str] = []

    def acknowledge(self, place: Place, offset: int, mark: Mark) -> None:
        """A producer was told that its record is at `offset`, or (negative) somewhere."""
        with self._lock:
            if offset < 0:
                self._notes.placeless[place].add(mark)
                return
            before = self._notes.acknowledged[place].setdefault(offset, mark)
        if before != mark:
            self.complain(f"{place} offset {offset} was given to {before} and to {mark}")

    def see(self, place: Place, offset: int, mark: Mark) -> None:
        """A consumer got a record."""
        with self._lock:
            self._notes.seen[place][offset] = mark

    def complain(self, problem: str) -> None:
        """Something that must not be."""
        with self._lock:
            self._problems.append(problem)

    @property
    def problems(self) -> list[str]:
        """All complaints so far."""
        with self._lock:
            return list(self._problems)

    def take(self) -> Notes:
        """Everything noted since the last call."""
        with self._lock:
            notes, self._notes = self._notes, Notes()
            return notes
