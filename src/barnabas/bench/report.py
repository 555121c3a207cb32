"""What a benchmark found: raw figures as JSON, and the same as a table for people."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Column(NamedTuple):
    """One column of the table: which key of a row it shows, and how."""

    key: str
    title: str
    form: str = "{}"


def machine_facts() -> dict[str, Any]:
    """What a figure depends on besides the code."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }


@dataclass(frozen=True)
class Report:
    """The result of one benchmark run."""

    benchmark: str
    options: dict[str, Any]
    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    notes: tuple[str, ...] = ()
    machine: dict[str, Any] = field(default_factory=machine_facts)

    def to_json(self) -> str:
        """Everything, for programs and for `bench/results/`."""
        return json.dumps(
            {
                "benchmark": self.benchmark,
                "machine": self.machine,
                "options": self.options,
                "results": self.rows,
                "notes": self.notes,
            },
            indent=2,
        )

    def render(self) -> str:
        """A table of plain text; the notes below it."""
        cells = [[column.title for column in self.columns]]
        cells += [
            [show(row.get(column.key), column.form) for column in self.columns] for row in self.rows
        ]
        widths = [max(len(line[index]) for line in cells) for index in range(len(self.columns))]
        lines = ["  ".join(_aligned(line, widths)).rstrip() for line in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*lines, *(("", *self.notes) if self.notes else ())])


def show(value: Any, form: str) -> str:
    """One cell; what was not measured is a dash."""
    return "-" if value is None else form.format(value)


def _aligned(line: list[str], widths: list[int]) -> list[str]:
    first, *rest = zip(line, widths, strict=True)
    return [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def spread(values: Sequence[float]) -> float:
    """Distance between the quartiles as a share of the median; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0
