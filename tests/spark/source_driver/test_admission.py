"""How far a micro-batch goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.source.admission import Delay, Limits, admit

A, B, C = (Place("t", number) for number in range(3))
PLACES = st.sampled_from([Place("t", number) for number in range(6)])


def test_a_limit_is_shared_in_proportion_and_nobody_starves() -> None:
    start = {A: 0, B: 100, C: 7}
    end = {A: 9_000, B: 1_100, C: 8}
    assert admit(start, end, Limits(offsets_max=100), None) == {A: 89, B: 109, C: 8}


def test_without_a_limit_all_there_is() -> None:
    assert admit({A: 5}, {A: 90}, Limits(), None) == {A: 90}
    assert admit({A: 5}, {A: 90}, Limits(offsets_max=85), None) == {A: 90}
    assert admit({A: 5, B: 9}, {A: 5, B: 9}, Limits(offsets_max=1), None) == {A: 5, B: 9}


def test_bytes_are_a_limit_too_and_the_tighter_one_counts() -> None:
    start, end, sizes = {A: 0, B: 0}, {A: 100, B: 100}, {A: 900.0, B: 100.0}
    assert admit(start, end, Limits(bytes_max=10_000), sizes) == {A: 10, B: 10}
    assert admit(start, end, Limits(bytes_max=10_000, offsets_max=4), sizes) == {A: 2, B: 2}
    assert admit(start, end, Limits(bytes_max=10_000, offsets_max=150), sizes) == {A: 10, B: 10}


@given(
    st.dictionaries(PLACES, st.tuples(st.integers(0, 2**62), st.integers(0, 10**12)), min_size=1),
    st.none() | st.integers(1, 2**63 - 1),
    st.none() | st.integers(1, 2**63 - 1),
)
def test_every_batch_gets_on_and_none_goes_too_far(
    logs: dict[Place, tuple[int, int]], offsets_max: int | None, bytes_max: int | None
) -> None:
    start = {place: first for place, (first, _) in logs.items()}
    end = {place: first + more for place, (first, more) in logs.items()}
    sizes = dict.fromkeys(logs, 100.0)
    admitted = admit(start, end, Limits(offsets_max, bytes_max), sizes)
    assert admitted.keys() == end.keys()
    for place in end:
        assert start[place] <= admitted[place] <= end[place]
        assert admitted[place] > start[place] or end[place] == start[place]
    if offsets_max is not None:
        taken = sum(admitted[place] - start[place] for place in end)
        assert taken <= offsets_max + len(end)


def test_waiting_for_more() -> None:
    limits = Limits(offsets_min=10, delay_max_s=60.0)
    delay = Delay()
    assert not delay.waits(limits, 0, now_s=1000.0)
    assert delay.waits(limits, 9, now_s=1001.0)
    assert not delay.waits(limits, 10, now_s=1002.0)
    assert delay.waits(limits, 1, now_s=1061.0)
    assert not delay.waits(limits, 1, now_s=1062.0)
    assert not Delay().waits(Limits(), 0, now_s=0.0)


def test_limits_of_spark_count_besides_those_of_the_options() -> None:
    limits = Limits(offsets_max=100, offsets_min=5)
    assert limits.under(ReadAllAvailable()) == Limits()
    assert limits.under(ReadMaxRows(10)) == Limits(offsets_max=10, offsets_min=5)
    assert limits.under(ReadMaxRows(1000)) == limits
    assert limits.under(ReadMaxBytes(9)) == Limits(offsets_max=100, bytes_max=9, offsets_min=5)
    assert limits.under(ReadMinRows(7)) == Limits(offsets_max=100, offsets_min=7)
    with pytest.raises(SparkJobError, match="maxOffsetsPerTrigger"):
        limits.under(ReadMaxFiles(1))


def test_what_spark_is_told() -> None:
    assert Limits().default_read_limit() == ReadAllAvailable()
    assert Limits(offsets_max=3, offsets_min=1).default_read_limit() == ReadMaxRows(3)
    assert Limits(bytes_max=3).default_read_limit() == ReadMaxBytes(3)
    assert Limits(offsets_min=3).default_read_limit() == ReadMinRows(3)
