"""How far a micro-batch goes: all there is, or a part of it, or nothing until there is more.

Decides from offsets alone; the clock is handed in.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit


@dataclass(frozen=True)
class Limits:
    """What one micro-batch may take; None is no limit."""

    offsets_max: int | None = None
    bytes_max: int | None = None
    offsets_min: int | None = None
    delay_max_s: float = 0.0

    @classmethod
    def of(cls, options: SourceOptions) -> "Limits":
        """What the options say."""
        return cls(
            offsets_max=options.offsets_max,
            bytes_max=options.bytes_max,
            offsets_min=options.offsets_min,
            delay_max_s=options.trigger_delay_max_s,
        )

    def under(self, limit: "ReadLimit") -> "Limits":
        """Together with the limit Spark hands over.

        `ReadAllAvailable` stands above all options: Spark sets it for Trigger.Once. Any other is
        what `default_read_limit` has told, or something tighter.
        """
        from pyspark.sql.streaming import datasource as spark

        match limit:
            case spark.ReadAllAvailable():
                return Limits()
            case spark.ReadMaxRows(rows):
                return replace(self, offsets_max=_least(self.offsets_max, rows))
            case spark.ReadMaxBytes(size):
                return replace(self, bytes_max=_least(self.bytes_max, size))
            case spark.ReadMinRows(rows):
                return replace(self, offsets_min=max(self.offsets_min or 0, rows))
        raise SparkJobError(
            f"A limit of the kind {type(limit).__name__} means nothing for topics: limit a "
            "micro-batch with maxOffsetsPerTrigger or maxBytesPerTrigger."
        )

    def default_read_limit(self) -> "ReadLimit":
        """The option that counts, in Spark's words.

        Spark knows no limit made of several, so the others are applied besides. That every limit
        is told as something else than `ReadAllAvailable` is what lets Trigger.Once be noticed.
        """
        from pyspark.sql.streaming import datasource as spark

        if self.offsets_max is not None:
            return spark.ReadMaxRows(self.offsets_max)
        if self.bytes_max is not None:
            return spark.ReadMaxBytes(self.bytes_max)
        if self.offsets_min is not None:
            return spark.ReadMinRows(self.offsets_min)
        return spark.ReadAllAvailable()


def _least(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


class Delay:
    """`minOffsetsPerTrigger`: wait for so many offsets, but not for ever."""

    def __init__(self) -> None:
        self._last_at: float | None = None

    def waits(self, limits: Limits, new_offsets: int, now_s: float) -> bool:
        """Whether to let this trigger pass; the first one never waits, as in the connector."""
        if limits.offsets_min is None:
            return False
        due = self._last_at is None or now_s - self._last_at >= limits.delay_max_s
        if not due and new_offsets < limits.offsets_min:
            return True
        self._last_at = now_s
        return False


def admit(
    start: Mapping[Place, int],
    end: Mapping[Place, int],
    limits: Limits,
    per_offset: Mapping[Place, float] | None,
) -> dict[Place, int]:
    """How far each partition is read: to its `end`, or as far as its part of the limits goes.

    Limits are shared in proportion to what each partition has to read, and no partition with
    anything to read gets nothing. `per_offset` is needed for a limit in bytes only.
    """
    waiting = {place: last - start[place] for place, last in end.items() if last > start[place]}
    if not waiting:
        return dict(end)
    share = Fraction(1)
    if limits.offsets_max is not None:
        share = min(share, Fraction(limits.offsets_max, sum(waiting.values())))
    if limits.bytes_max is not None and per_offset is not None:
        total = sum(offsets * per_offset[place] for place, offsets in waiting.items())
        share = min(share, Fraction(limits.bytes_max) / Fraction(total))
    if share == 1:
        return dict(end)
    return {
        place: start[place] + max(1, math.floor(waiting[place] * share))
        if place in waiting
        else last
        for place, last in end.items()
    }
