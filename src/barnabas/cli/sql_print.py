"""Rows on stdout: a table for people, JSON or CSV for programs; in bounded memory."""

import csv
import sys
from collections.abc import Sequence
from typing import Any, Final, Protocol

from barnabas.cli.sql_values import cell, csv_value, distinct, is_number, json_value

WIDTHS_FROM: Final = 1000
"""So many rows decide how wide a table's columns are; later ones have to do with that."""
_GAP: Final = "  "


class Named(Protocol):
    """A column of an answer."""

    @property
    def name(self) -> str:
        """As the query calls it."""

    @property
    def kind(self) -> Any:
        """Spark's type."""


class Printer(Protocol):
    """Takes rows one by one."""

    count: int

    def row(self, row: Sequence[object]) -> None:
        """One more."""

    def end(self) -> None:
        """There are no more."""


class TablePrinter:
    """Columns as wide as they need to be, numbers to the right."""

    def __init__(self, columns: Sequence[Named]) -> None:
        self.count = 0
        self._titles = [cell(column.name) for column in columns]
        self._kinds = [column.kind for column in columns]
        self._to_right = [is_number(kind) for kind in self._kinds]
        self._widths: list[int] | None = None
        self._kept: list[list[str]] = []

    def row(self, row: Sequence[object]) -> None:
        """Kept, until it is known how wide columns are."""
        self.count += 1
        cells = [cell(value, kind) for value, kind in zip(row, self._kinds, strict=True)]
        if self._widths is not None:
            self._write(cells)
            return
        self._kept.append(cells)
        if len(self._kept) >= WIDTHS_FROM:
            self._begin()

    def end(self) -> None:
        """All that was kept, and the titles also without any row."""
        if self._widths is None:
            self._begin()
        sys.stdout.flush()

    def _begin(self) -> None:
        lines = [self._titles, *self._kept]
        self._widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            self._write(line)
        self._kept = []

    def _write(self, cells: list[str]) -> None:
        padded = (
            " " * (width - _width(text)) + text if right else text + " " * (width - _width(text))
            for text, width, right in zip(cells, self._widths or (), self._to_right, strict=True)
        )
        sys.stdout.write(_GAP.join(padded).rstrip() + "\n")


class TextPrinter:
    """A text of several lines as it is: the plan of EXPLAIN."""

    def __init__(self) -> None:
        self.count = 0

    def row(self, row: Sequence[object]) -> None:
        """Written at once."""
        self.count += 1
        sys.stdout.write(f"{row[0]}\n")

    def end(self) -> None:
        """Nothing is left to write."""
        sys.stdout.flush()


class JsonPrinter:
    """An object a line; of two columns of one name the second is called name_2."""

    def __init__(self, columns: Sequence[Named]) -> None:
        self.count = 0
        self._names = [json_value(name) for name in distinct([each.name for each in columns])]
        self._kinds = [column.kind for column in columns]

    def row(self, row: Sequence[object]) -> None:
        """Written at once."""
        self.count += 1
        fields = (
            f"{name}: {json_value(value, kind)}"
            for name, value, kind in zip(self._names, row, self._kinds, strict=True)
        )
        sys.stdout.write("{" + ", ".join(fields) + "}\n")

    def end(self) -> None:
        """Nothing is left to write."""
        sys.stdout.flush()


class CsvPrinter:
    """As spreadsheets and pandas read it; NULL is nothing at all."""

    def __init__(self, columns: Sequence[Named]) -> None:
        self.count = 0
        self._kinds = [column.kind for column in columns]
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._titles = [column.name for column in columns]

    def row(self, row: Sequence[object]) -> None:
        """Written at once, after the names if it is the first."""
        self._begin()
        self.count += 1
        self._writer.writerow(map(csv_value, row, self._kinds))

    def end(self) -> None:
        """The names also without any row."""
        self._begin()
        sys.stdout.flush()

    def _begin(self) -> None:
        if self._titles:
            self._writer.writerow(self._titles)
            self._titles = []


def _width(text: str) -> int:
    """On a screen: some letters take two columns, and some none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
