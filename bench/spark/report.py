"""Figures of both connectors as tables that a person can read."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.spark.jobs import EXACTLY_ONCE
from tests.compat.clients.spark.harness import OFFICIAL, OURS

NOTES: Final = (
    "rows/s: the median of the rounds, in thousands. ratio: barnabas to official, the median of",
    "the rounds' ratios, with the lowest and the highest; above 1.00 barnabas is the faster one.",
    "In each round both do the same job, one after the other, the first one alternating.",
    "Only the ratios are claims: the machine is shared, and has few cores.",
)
LATENCY_NOTES: Final = (
    "Milliseconds of a whole trigger (triggerExecution of Spark's progress), a few records each,",
    "ProcessingTime(0). ratio: official to barnabas, so above 1.00 barnabas is the faster one.",
)


@dataclass(frozen=True)
class Measured:
    """All rounds of one job: rows per second by connector."""

    name: str
    rounds: dict[str, list[float]]

    def ratios(self, connector: str) -> list[float]:
        """Round by round, to the official connector's."""
        return [
            ours / theirs
            for ours, theirs in zip(self.rounds[connector], self.rounds[OFFICIAL], strict=True)
        ]


@dataclass(frozen=True)
class Latency:
    """All triggers of one query: milliseconds by connector."""

    name: str
    times: dict[str, list[float]]


def throughput_table(rows: Iterable[Measured]) -> list[str]:
    """One line a job."""
    lines = [("job", "official", "barnabas", "ratio", "low", "high", "exactly once", "ratio")]
    for row in rows:
        ratios = row.ratios(OURS)
        cells = [row.name, _thousands(row.rounds[OFFICIAL]), _thousands(row.rounds[OURS])]
        cells += [f"{each:.2f}" for each in (statistics.median(ratios), min(ratios), max(ratios))]
        if EXACTLY_ONCE in row.rounds:
            cells.append(_thousands(row.rounds[EXACTLY_ONCE]))
            cells.append(f"{statistics.median(row.ratios(EXACTLY_ONCE)):.2f}")
        else:
            cells += ["", ""]
        lines.append(tuple(cells))  # type: ignore[arg-type]
    return _aligned(lines)


def latency_table(rows: Iterable[Latency]) -> list[str]:
    """One line a query."""
    titles = ["query"]
    for connector in ("official", "barnabas", "exactly once"):
        titles += [f"{connector} p50", "p99"]
    lines = [(*titles, "ratio p50", "p99")]
    for row in rows:
        cells = [row.name]
        for connector in (OFFICIAL, OURS, EXACTLY_ONCE):
            times = row.times.get(connector)
            cells += ["", ""] if times is None else [f"{_at(times, q):.0f}" for q in (50, 99)]
        for q in (50, 99):
            cells.append(f"{_at(row.times[OFFICIAL], q) / _at(row.times[OURS], q):.2f}")
        lines.append(tuple(cells))
    return _aligned(lines)


def _thousands(rates: Sequence[float]) -> str:
    return f"{statistics.median(rates) / 1000:,.0f}k"


def _at(times: Sequence[float], percent: int) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    shown = []
    for line in lines:
        first, *others = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        shown.append("  ".join((first, *others)).rstrip())
    shown.insert(1, "  ".join("-" * width for width in widths))
    return shown
