"""Which task reads what: spans of offsets cut and joined so that tasks have about the same to do.

A partition with much to read is cut over several tasks; partitions with little share one. A task
costs Spark 20 to 35 ms where there are more of them than cores, whatever it reads, so few are
better than many as long as every core has work.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from barnabas.spark.places import Place, Span
from barnabas.spark.source.sizes import bytes_of

_WORTH_A_CORE: Final = 1024 * 1024
"""Bytes from which on another core pays: one core decodes a megabyte in a millisecond or two, but
fetching, decompressing and Spark's own road from Arrow to rows cost about as much as a task."""

_SNAP: Final = 0.1
"""A cut this near to a partition's edge (as a part of a task's share) is made at the edge: each
cut inside a partition lets two tasks fetch and decode the batch in which it falls."""


class TaskSpans(InputPartition):
    """What one task reads, in order."""

    def __init__(self, spans: Sequence[Span]) -> None:
        super().__init__(None)
        self.spans: tuple[Span, ...] = tuple(spans)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskSpans) and self.spans == other.spans

    def __hash__(self) -> int:
        return hash(self.spans)


@dataclass(frozen=True)
class PlanRule:
    """How many tasks there shall be."""

    task_bytes: int
    tasks_min: int | None = None
    task_offsets_max: int | None = None
    cores: int = 0
    """How many tasks run at once; 0 for as many as this machine has cores. The driver's machine
    need not be the executors': on a cluster it is `bytesPerTask` and `minPartitions` that count."""

    def tasks(self, total_bytes: float, total_offsets: int) -> int:
        """The most of: what was asked for; pieces of `task_bytes`; a core for each megabyte.

        The first is the user's word. The second bounds what one task holds up when it is slow or
        is repeated. The third puts all cores to work as soon as there is enough for them, and
        leaves a micro-batch of a few records to one task. Never more tasks than offsets.
        """
        cores = self.cores or os.cpu_count() or 1
        wanted = max(
            self.tasks_min or 1,
            math.ceil(total_bytes / self.task_bytes),
            min(cores, math.ceil(total_bytes / _WORTH_A_CORE)),
        )
        return min(wanted, total_offsets)


def plan(
    spans: Sequence[Span], per_offset: Mapping[Place, float], rule: PlanRule
) -> list[TaskSpans]:
    """Every offset of the spans in exactly one task, each partition's in order."""
    filled = sorted(span for span in spans if span.offsets > 0)
    if not filled:
        return []
    total = bytes_of(filled, per_offset)
    offsets = sum(span.offsets for span in filled)
    shares = divide(filled, per_offset, rule.tasks(total, offsets))
    if rule.task_offsets_max is not None:
        shares = [piece for share in shares for piece in _capped(share, rule.task_offsets_max)]
    return [TaskSpans(share) for share in shares]


def divide(
    spans: Sequence[Span], per_offset: Mapping[Place, float], shares: int, snap: float = _SNAP
) -> list[list[Span]]:
    """Cut the row of all spans into so many shares of about the same bytes; none is empty."""
    total = bytes_of(spans, per_offset)
    slack = snap * total / shares
    divided: list[list[Span]] = []
    rest = list(reversed(spans))
    taken = 0.0
    for nth in range(1, shares):
        # Up to a mark on the whole row, so that what one cut misses is not missed by the next.
        share = _take(rest, total * nth / shares - taken, slack, per_offset)
        if share:
            divided.append(share)
            taken += bytes_of(share, per_offset)
    if rest:
        divided.append(list(reversed(rest)))
    # Where single offsets are larger than a share, some marks fell into the same one.
    while len(divided) < shares:
        _halve_largest(divided, per_offset)
    return divided


def _take(
    rest: list[Span], room: float, slack: float, per_offset: Mapping[Place, float]
) -> list[Span]:
    """Take spans off the end of `rest` until the room is filled."""
    share: list[Span] = []
    while rest and room > slack:
        span = rest[-1]
        each = per_offset[span.place]
        if span.offsets * each <= room + slack:
            share.append(rest.pop())
            room -= span.offsets * each
            continue
        fitting = min(round(room / each), span.offsets - 1)
        if fitting > 0:
            cut = span.start + fitting
            share.append(Span(span.place, span.start, cut))
            rest[-1] = Span(span.place, cut, span.end)
        break
    return share


def _halve_largest(shares: list[list[Span]], per_offset: Mapping[Place, float]) -> None:
    """Make one share more, of the largest that can be cut."""
    cuttable = (at for at, share in enumerate(shares) if sum(s.offsets for s in share) > 1)
    at = max(cuttable, key=lambda at: bytes_of(shares[at], per_offset))
    row = shares[at]
    keep = sum(span.offsets for span in row) // 2
    first: list[Span] = []
    rest = list(reversed(row))
    while keep > 0:
        span = rest.pop()
        cut = min(span.end, span.start + keep)
        first.append(Span(span.place, span.start, cut))
        keep -= cut - span.start
        if cut < span.end:
            rest.append(Span(span.place, cut, span.end))
    shares[at : at + 1] = [first, list(reversed(rest))]


def _capped(share: Sequence[Span], offsets_max: int) -> list[list[Span]]:
    """`maxRecordsPerPartition`: no task with more offsets than that."""
    offsets = sum(span.offsets for span in share)
    if offsets <= offsets_max:
        return [list(share)]
    alike = {span.place: 1.0 for span in share}
    return divide(share, alike, math.ceil(offsets / offsets_max), snap=0.0)
