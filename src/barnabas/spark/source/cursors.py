"""How far each span of a task has been read, and how much to ask for next."""

from collections.abc import Iterable
from typing import Final

from barnabas.spark.places import Place, Span

_DENSITY_DEFAULT: Final = 1024.0
"""Bytes an offset is taken to need in a partition of which nothing has been seen."""

_ASK_BYTES_MIN: Final = 64 * 1024
_ASK_BYTES_MAX: Final = 2**31 - 1
_HABITS_MAX: Final = 10_000


class Habit:
    """What a partition's batches have been like: micro-batches come back to it all the time.

    A span of a hundred offsets in the middle of gigabytes must not make the broker send eight
    megabytes of them.
    """

    __slots__ = ("batch_bytes", "density")

    def __init__(self) -> None:
        self.density = _DENSITY_DEFAULT
        self.batch_bytes = _ASK_BYTES_MIN // 2

    def note(self, size: int, offsets: int, largest: int) -> None:
        """An answer of `size` bytes covered so many offsets; its largest batch had `largest`."""
        if offsets > 0:
            self.density = size / offsets
            self.batch_bytes = largest


_habits: dict[Place, Habit] = {}


def _habit_of(place: Place) -> Habit:
    habit = _habits.get(place)
    if habit is None:
        if len(_habits) >= _HABITS_MAX:
            _habits.clear()
        habit = _habits[place] = Habit()
    return habit


class Cursor:
    """One span: `offset` is the next one to ask for; what lies before it was handed on."""

    __slots__ = ("_least_bytes", "barren_answers", "end", "habit", "offset", "place", "waited_s")

    def __init__(self, span: Span) -> None:
        self.place = span.place
        self.offset = span.start
        self.end = span.end
        self.habit = _habit_of(span.place)
        self.waited_s = 0.0
        self.barren_answers = 0
        self._least_bytes = 0

    @property
    def done(self) -> bool:
        """Whether nothing is left to ask for."""
        return self.offset >= self.end

    def ask_bytes(self, limit: int) -> int:
        """How much to ask for: what the rest is likely to need, at most `limit`.

        A batch that is cut through by either end of the span comes whole, hence two more.
        """
        likely = (self.end - self.offset) * self.habit.density + 2 * self.habit.batch_bytes
        return max(min(max(int(likely), _ASK_BYTES_MIN), limit), self._least_bytes)

    def want(self, size: int) -> None:
        """Too few bytes were asked for: at least so many next time."""
        self._least_bytes = min(max(self._least_bytes, size), _ASK_BYTES_MAX)

    def advance(self, offset: int) -> None:
        """On to `offset`, which never lies behind."""
        self.offset = offset
        self.waited_s = 0.0
        self.barren_answers = 0


def cursors_of(spans: Iterable[Span]) -> list[Cursor]:
    """Those in which there is something to read."""
    return [Cursor(span) for span in spans if span.offsets > 0]
