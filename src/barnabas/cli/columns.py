"""Tables that fit the terminal: what matters least is shortened or left out first."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

_GAP: Final = "  "
_NAME_CHARS_MIN: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A title, and what stands below it."""

    title: str
    cells: Sequence[str]
    short: Sequence[str] | None = None
    """The same in fewer letters, for where there is no room for all of them."""
    is_number: bool = False
    """Numbers stand to the right."""

    @property
    def width(self) -> int:
        """Of the widest."""
        return max(map(len, (self.title, *self.cells)))


def fitting(columns: Sequence[Column], width: int | None, spared: Sequence[str]) -> list[Column]:
    """What fits into so many letters; None: all of it.

    `spared` has titles in the order in which they go: at first to their short cells, if there are
    any, and altogether the next time. If that is not enough, the first column is cut.
    """
    left = list(columns)
    for title in spared:
        if width is None or _width(left) <= width:
            return left
        left = [each for column in left for each in _spare(column, title)]
    return left if width is None or _width(left) <= width else _cut(left, width)


def _spare(column: Column, title: str) -> list[Column]:
    if column.title != title:
        return [column]
    return [] if column.short is None else [replace(column, cells=column.short, short=None)]


def _cut(columns: list[Column], width: int) -> list[Column]:
    """Names are told apart by their ends as often as by their beginnings: the middle goes."""
    first, *others = columns
    room = max(_NAME_CHARS_MIN, first.width - (_width(columns) - width))
    return [replace(first, cells=[_shortened(each, room) for each in first.cells]), *others]


def _shortened(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    end = (room - 1) // 2
    return f"{name[: room - 1 - end]}…{name[-end:]}"


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)


def lines(columns: Sequence[Column]) -> list[str]:
    """The titles, and a line for each row."""
    rows = zip(*([column.title, *column.cells] for column in columns), strict=True)
    return [
        _GAP.join(
            cell.rjust(column.width) if column.is_number else cell.ljust(column.width)
            for cell, column in zip(row, columns, strict=True)
        ).rstrip()
        for row in rows
    ]


def folded(facts: Sequence[str], width: int | None) -> list[str]:
    """Facts side by side, on as many lines as they need; none is torn."""
    found: list[str] = []
    for fact in facts:
        if found and (width is None or len(found[-1]) + len(_GAP) + len(fact) <= width):
            found[-1] += f"{_GAP}{fact}"
        else:
            found.append(fact)
    return found


def terminal_width() -> int | None:
    """Of what we print to; None where no terminal is, and lines may be as long as they like."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
