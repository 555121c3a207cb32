"""Filters become offsets without ever ruling out a row that passes them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from barnabas.spark.places import Place, Span
from barnabas.spark.source.filters import Wanted

A0, A1, B0 = Place("a", 0), Place("a", 1), Place("b", 0)
SPANS = [Span(A0, 0, 100), Span(A1, 50, 60), Span(B0, 7, 30)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Logs:
    """Records' timestamps in milliseconds by partition, from offset 0 on."""

    def __init__(self, times: Mapping[Place, list[int]]) -> None:
        self.times = times

    def at_time(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        return {
            place: next((at for at, ms in enumerate(self.times[place]) if ms >= wanted), None)
            for place, wanted in times.items()
        }


NOTHING = Logs({})


def at(ms: float) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def narrowed(*filters: Filter, logs: Logs = NOTHING, spans: list[Span] = SPANS) -> list[Span]:
    return Wanted.of(filters).narrow(spans, logs)


def test_topics_and_partitions() -> None:
    assert narrowed(EqualTo(("topic",), "b")) == [SPANS[2]]
    assert narrowed(In(("topic",), ("b", "c"))) == [SPANS[2]]
    assert narrowed(EqualNullSafe(("topic",), "a"), EqualTo(("partition",), 1)) == [SPANS[1]]
    assert narrowed(GreaterThan(("partition",), 0)) == [SPANS[1]]
    assert narrowed(LessThanOrEqual(("partition",), 0)) == [SPANS[0], SPANS[2]]
    assert narrowed(In(("partition",), (1, 5))) == [SPANS[1]]
    assert narrowed(EqualTo(("topic",), "a"), EqualTo(("topic",), "b")) == []


def test_offsets() -> None:
    some = narrowed(GreaterThanOrEqual(("offset",), 20), LessThan(("offset",), 55))
    assert some == [Span(A0, 20, 55), Span(A1, 50, 55), Span(B0, 20, 30)]
    assert narrowed(EqualTo(("offset",), 99)) == [Span(A0, 99, 100)]
    assert narrowed(In(("offset",), (8, 12, 70))) == [
        Span(A0, 8, 71),
        Span(A1, 50, 60),
        Span(B0, 8, 30),
    ]


def test_what_is_not_understood_rules_nothing_out() -> None:
    others: list[Filter] = [
        IsNotNull(("topic",)),
        Not(EqualTo(("partition",), 1)),
        StringStartsWith(("topic",), "b"),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        EqualTo(("offset",), None),
        EqualTo(("timestamp",), datetime(2024, 1, 1)),  # noqa: DTZ001 - that is the point
        In(("partition",), (1, None)),
        In(("topic",), ("a", None)),
    ]
    assert narrowed(*others) == SPANS


def test_times_move_the_start() -> None:
    logs = Logs({A0: [10, 500, 20, 600, 30]})
    span = [Span(A0, 0, 5)]
    assert narrowed(GreaterThanOrEqual(("timestamp",), at(501.0)), logs=logs, spans=span) == [
        Span(A0, 1, 5)
    ]
    assert narrowed(GreaterThan(("timestamp",), at(505.0)), logs=logs, spans=span) == [
        Span(A0, 3, 5)
    ]
    assert narrowed(GreaterThan(("timestamp",), at(700.0)), logs=logs, spans=span) == []


def test_times_never_move_the_end() -> None:
    """What follows a record that is too late need not be: its producer's clock was ahead."""
    logs = Logs({A0: [10, 20, 900_000, 30, 40]})
    span = [Span(A0, 0, 5)]
    for late in (LessThan(("timestamp",), at(25.0)), EqualTo(("timestamp",), at(2.0))):
        assert narrowed(late, logs=logs, spans=span) == span


COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["a", "b"]),
    "partition": st.integers(-1, 2),
    "offset": st.integers(-1, 12),
    "timestamp": st.integers(-1500, 9500).map(lambda us: EPOCH + timedelta(microseconds=us)),
}
TESTS: dict[Any, Callable[[Any, Any], bool]] = {
    EqualTo: lambda one, other: one == other,
    GreaterThan: lambda one, other: one > other,
    GreaterThanOrEqual: lambda one, other: one >= other,
    LessThan: lambda one, other: one < other,
    LessThanOrEqual: lambda one, other: one <= other,
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(list(COLUMNS)))
    if draw(st.booleans()):
        return In((column,), tuple(draw(st.lists(COLUMNS[column], min_size=1, max_size=3))))
    chosen: Filter = draw(st.sampled_from(list(TESTS)))((column,), draw(COLUMNS[column]))
    return chosen


def passes(each: Filter, row: dict[str, Any]) -> bool:
    value = row[each.attribute[0]]  # type: ignore[attr-defined]
    if isinstance(each, In):
        return value in each.value
    return TESTS[type(each)](value, each.value)  # type: ignore[attr-defined]


@given(st.lists(filters(), max_size=4), st.lists(st.integers(0, 9), min_size=12, max_size=12))
def test_no_row_that_passes_is_ruled_out(chosen: list[Filter], times: list[int]) -> None:
    places = [Place("a", 0), Place("a", 1), Place("b", 0)]
    logs = Logs(dict.fromkeys(places, times))
    kept = narrowed(*chosen, logs=logs, spans=[Span(place, 0, 12) for place in places])
    offsets = {span.place: range(span.start, span.end) for span in kept}
    for place in places:
        for offset, ms in enumerate(times):
            row = {"offset": offset, "timestamp": at(ms)} | place._asdict()
            if all(passes(each, row) for each in chosen):
                assert offset in offsets.get(place, ())
