"""Filters of a batch query made into offsets: where rows that pass them can lie at all.

Only ever narrows; Spark checks each row itself. A filter that is not understood rules nothing out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from pyspark.sql import datasource as spark

from barnabas.spark.places import Place, Span

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Times(Protocol):
    """What a cluster tells about times."""

    def at_time(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        """The first offset at or after a time; None when there is none."""


@dataclass(frozen=True)
class Range:
    """Whole numbers from `first` to `last`, both included; None is without bound."""

    first: int | None = None
    last: int | None = None
    among: frozenset[int] | None = None

    def both(self, other: "Range") -> "Range":
        """What is in both."""
        firsts = [each.first for each in (self, other) if each.first is not None]
        lasts = [each.last for each in (self, other) if each.last is not None]
        sets = [each.among for each in (self, other) if each.among is not None]
        return Range(
            max(firsts, default=None),
            min(lasts, default=None),
            frozenset.intersection(*sets) if sets else None,
        )

    def __contains__(self, number: int) -> bool:
        """Whether it is within the bounds, and one of those that are named."""
        return (
            (self.first is None or number >= self.first)
            and (self.last is None or number <= self.last)
            and (self.among is None or number in self.among)
        )


@dataclass(frozen=True)
class Wanted:
    """What the filters leave of topics, partitions, offsets and times (in microseconds)."""

    topics: frozenset[str] | None = None
    partitions: Range = field(default_factory=Range)
    offsets: Range = field(default_factory=Range)
    times: Range = field(default_factory=Range)

    @classmethod
    def of(cls, filters: Sequence[spark.Filter]) -> "Wanted":
        """All of the filters hold at once, so each narrows what the others left."""
        topics: frozenset[str] | None = None
        ranges = {"partition": Range(), "offset": Range(), "timestamp": Range()}
        for each in filters:
            match getattr(each, "attribute", None):
                case ("topic",):
                    named = _topics(each)
                    if named is not None:
                        topics = named if topics is None else topics & named
                case (("partition" | "offset") as column,):
                    ranges[column] = ranges[column].both(_range(each, _whole))
                case ("timestamp",):
                    ranges["timestamp"] = ranges["timestamp"].both(_range(each, _microseconds))
        return cls(topics, ranges["partition"], ranges["offset"], ranges["timestamp"])

    def narrow(self, spans: Sequence[Span], cluster: Times) -> list[Span]:
        """The spans, without the offsets at which no row can pass."""
        kept = [
            narrowed
            for span in spans
            if (self.topics is None or span.place.topic in self.topics)
            and span.place.partition in self.partitions
            and (narrowed := _within(span, self.offsets)).offsets > 0
        ]
        return self._begun(kept, cluster)

    def _begun(self, spans: list[Span], cluster: Times) -> list[Span]:
        """Begin at the first record that is young enough.

        That holds for every topic: all records before the first one of a time or later are of an
        earlier time, in whatever order timestamps come. Asked for is the millisecond before: a
        log's index may point behind a record of just the time it names, in the same batch.

        Nothing ends at the first record that is too late: producers' timestamps come in any order,
        and a topic whose brokers set them may hold records of a time when they did not.
        """
        first_us = _lowest(self.times)
        if first_us is None or first_us < 1000 or not spans:
            return spans
        first_ms = first_us // 1000 - 1
        found = cluster.at_time({span.place: first_ms for span in spans})
        return [
            Span(span.place, min(max(span.start, offset), span.end), span.end)
            for span in spans
            if (offset := found.get(span.place)) is not None
        ]


def _topics(each: spark.Filter) -> frozenset[str] | None:
    match each:
        case spark.EqualTo(_, str(topic)) | spark.EqualNullSafe(_, str(topic)):
            return frozenset({topic})
        case spark.In(_, values) if all(isinstance(value, str) for value in values):
            return frozenset(values)
    return None


def _range(each: spark.Filter, number_of: Callable[[Any], int | None]) -> Range:
    """What the filter leaves; everything, if it is of another kind or its value is."""
    if isinstance(each, spark.In):
        numbers = [number_of(value) for value in each.value]
        known = frozenset(number for number in numbers if number is not None)
        return Range(among=known) if len(numbers) and None not in numbers else Range()
    number = number_of(getattr(each, "value", None))
    if number is None:
        return Range()
    match each:
        case spark.EqualTo() | spark.EqualNullSafe():
            return Range(number, number)
        case spark.GreaterThan():
            return Range(first=number + 1)
        case spark.GreaterThanOrEqual():
            return Range(first=number)
        case spark.LessThan():
            return Range(last=number - 1)
        case spark.LessThanOrEqual():
            return Range(last=number)
    return Range()


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _microseconds(value: Any) -> int | None:
    """Spark hands timestamps over in UTC, whatever the session's time zone is."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _MICROSECOND


def _lowest(times: Range) -> int | None:
    bounds = [times.first] if times.first is not None else []
    bounds += [min(times.among)] if times.among else []
    return max(bounds, default=None)


def _highest(times: Range) -> int | None:
    bounds = [times.last] if times.last is not None else []
    bounds += [max(times.among)] if times.among else []
    return min(bounds, default=None)


def _within(span: Span, offsets: Range) -> Span:
    start = max(span.start, _or(_lowest(offsets), span.start))
    end = min(span.end, _or(_highest(offsets), span.end - 1) + 1)
    return Span(span.place, start, max(start, end))


def _or(number: int | None, otherwise: int) -> int:
    return otherwise if number is None else number
