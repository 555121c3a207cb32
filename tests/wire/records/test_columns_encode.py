"""Columns to records and partitions: the compiled codec and its twin, on arrays of pyarrow."""

import mmap
import struct
import zlib
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.wire.records import _codec_py as plain
from barnabas.wire.records import _columns_np
from barnabas.wire.records.columns import Nested, Variable

Headers: TypeAlias = list[tuple[str, bytes | None]] | None
Row: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
INT32_MAX = 2**31 - 1

int64 = st.integers(-(2**63), 2**63 - 1)
maybe_bytes = st.none() | st.binary(max_size=100)
header_lists = st.none() | st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3)
row_lists = st.lists(st.tuples(int64, maybe_bytes, maybe_bytes, header_lists), max_size=12)


@pytest.fixture(scope="module", params=["_columns", "_columns_np"])
def columns(request: pytest.FixtureRequest) -> ModuleType:
    name = f"barnabas.wire.records.{request.param}"
    module: ModuleType = pytest.importorskip(name, exc_type=ImportError)
    return module


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    module: ModuleType = pytest.importorskip("barnabas.wire.records._columns", exc_type=ImportError)
    return module


def variable(array: Any) -> Variable:
    validity, offsets, data = array.buffers()
    return Variable(validity, offsets or b"", data or b"", array.offset)


def nested(array: Any) -> Nested:
    validity, offsets = array.buffers()[:2]
    names, values = array.values.field(0), array.values.field(1)
    return Nested(validity, offsets or b"", variable(names), variable(values), array.offset)


def binary(*content: bytes | None) -> Variable:
    return variable(pa.array(content, pa.binary()))


class Columns(NamedTuple):
    keys: Variable
    values: Variable
    headers: Nested
    timestamps: bytes


def columns_of(rows: list[Row], before: list[Row], after: list[Row]) -> Columns:
    """The rows as slices of longer arrays, as Arrow gives them after a slice()."""
    whole = before + rows + after

    def sliced(array: Any) -> Any:
        return array.slice(len(before), len(rows))

    lists = [
        None if row[3] is None else [{"key": name, "value": value} for name, value in row[3]]
        for row in whole
    ]
    return Columns(
        variable(sliced(pa.array([row[1] for row in whole], pa.binary()))),
        variable(sliced(pa.array([row[2] for row in whole], pa.binary()))),
        nested(sliced(pa.array(lists, HEADERS))),
        struct.pack(f"<{len(rows)}q", *(row[0] for row in rows)),
    )


def expected(rows: list[Row], base_timestamp: int, bytes_max: int) -> tuple[bytes, int, int]:
    fields = [
        (offset, timestamp, key, value, headers or [])
        for offset, (timestamp, key, value, headers) in enumerate(rows)
    ]
    taken = 1 if rows else 0
    while taken < len(rows):
        if len(plain.encode_records(fields[: taken + 1], 0, base_timestamp)) > bytes_max:
            break
        taken += 1
    section = plain.encode_records(fields[:taken], 0, base_timestamp)
    return section, taken, max((row[0] for row in rows[:taken]), default=-1)


@settings(max_examples=60)
@given(rows=row_lists, before=row_lists, after=row_lists, base_timestamp=int64, choices=st.data())
def test_rows_become_records(
    columns: ModuleType,
    rows: list[Row],
    before: list[Row],
    after: list[Row],
    base_timestamp: int,
    choices: st.DataObject,
) -> None:
    shape = columns_of(rows, before, after)
    order = None
    chosen = list(range(len(rows)))
    if choices.draw(st.booleans()) and rows:
        chosen = choices.draw(st.lists(st.sampled_from(chosen), max_size=20))
        order = struct.pack(f"<{len(chosen)}i", *chosen)
    first = choices.draw(st.integers(0, len(chosen)))
    count = choices.draw(st.integers(0, len(chosen) - first))
    bytes_max = choices.draw(st.sampled_from([-1, 0, 60, 300, INT32_MAX]))
    wanted = [rows[index] for index in chosen[first : first + count]]
    assert columns.encode_columns(
        len(rows), *shape, order, first, count, base_timestamp, bytes_max
    ) == expected(wanted, base_timestamp, bytes_max)


def test_columns_that_are_not_given(columns: ModuleType) -> None:
    """No keys, no headers, and everybody has the base timestamp."""
    values = binary(b"a", None)
    answer = columns.encode_columns(2, None, values, None, None, None, 0, 2, 55, 1000)
    assert answer == expected([(55, None, b"a", None), (55, None, None, None)], 55, 1000)
    answer = columns.encode_columns(1, None, None, None, None, None, 0, 1, 55, 1000)
    assert answer == expected([(55, None, None, None)], 55, 1000)


def test_the_last_record_may_fill_the_bytes_exactly(columns: ModuleType) -> None:
    values = binary(b"12345", b"1234567", b"1")
    two, _, _ = expected([(0, None, b"12345", None), (0, None, b"1234567", None)], 0, 1000)

    def taken(bytes_max: int) -> int:
        answer = columns.encode_columns(3, None, values, None, None, None, 0, 3, 0, bytes_max)
        assert len(answer[0]) <= bytes_max or answer[1] == 1
        return int(answer[1])

    assert [taken(len(two) + extra) for extra in (-1, 0, 1)] == [1, 2, 2]
    assert taken(0) == 1


# --- columns that lie -------------------------------------------------------------------------


def int32s(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


GOOD = Variable(None, int32s(0, 1, 2), b"ab")
LISTS = Nested(None, int32s(0, 1, 2), GOOD, GOOD)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (GOOD._replace(offsets=int32s(0, 2, 1)), "row 1: its place in the keys is not within"),
        (GOOD._replace(offsets=int32s(0, 1, 3)), "row 1: its place in the keys is not within"),
        (GOOD._replace(offsets=int32s(-1, 1, 2)), "row 0: its place in the keys is not within"),
        (GOOD._replace(offsets=int32s(0, INT32_MAX, 2)), "row 0: its place in the keys"),
        (GOOD._replace(data=b""), "row 0: its place in the keys is not within their data"),
        (GOOD._replace(offsets=int32s(0, 1)), "the keys have 1 rows, not 2"),
        (GOOD._replace(offsets=b""), "the keys have 0 rows, not 2"),
        (GOOD._replace(offsets=int32s(0, 1, 2)[:-1]), "the keys have 1 rows, not 2"),
        (GOOD._replace(validity=b""), "the keys have 0 rows, not 2"),
        (GOOD._replace(validity=b"\xff", start=7), "the keys have 0 rows, not 2"),
        (GOOD._replace(start=1), "the keys have 1 rows, not 2"),
        (GOOD._replace(start=2**62), "the keys have 0 rows, not 2"),
        (GOOD._replace(start=-1), "the keys start before their buffers"),
    ],
)
def test_a_column_that_lies_is_refused(columns: ModuleType, column: Variable, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        columns.encode_columns(2, column, None, None, None, None, 0, 2, 0, 1000)
    with pytest.raises(ValueError, match=message.replace("keys", "values")):
        columns.encode_columns(2, None, column, None, None, None, 0, 2, 0, 1000)
    for partitions_by in (columns.partitions_by_murmur2, columns.partitions_by_crc32):
        with pytest.raises(ValueError, match=message):
            partitions_by(column, 2, 3)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (LISTS._replace(offsets=int32s(0, 1)), "the headers have 1 rows, not 2"),
        (LISTS._replace(offsets=int32s(0, 2, 1)), "row 1: its headers are not within"),
        (LISTS._replace(offsets=int32s(0, 1, 3)), "row 1: its headers are not within"),
        (LISTS._replace(offsets=int32s(-1, 1, 2)), "row 0: its headers are not within"),
        (LISTS._replace(start=1), "the headers have 1 rows, not 2"),
        (LISTS._replace(names=GOOD._replace(start=1)), "row 1: its headers are not within"),
        (LISTS._replace(values=GOOD._replace(start=1)), "row 1: its headers are not within"),
        (LISTS._replace(values=GOOD._replace(start=-1)), "the header values start before"),
        (LISTS._replace(names=GOOD._replace(data=b"")), "row 0: its place in the header names"),
        (LISTS._replace(values=GOOD._replace(data=b"a")), "row 1: its place in the header val"),
        (LISTS._replace(names=GOOD._replace(validity=b"\x01")), "row 1: a header without a key"),
    ],
)
def test_headers_that_lie_are_refused(columns: ModuleType, column: Nested, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        columns.encode_columns(2, None, None, column, None, None, 0, 2, 0, 1000)


@pytest.mark.parametrize(
    ("rows", "order", "first", "count", "timestamps", "message"),
    [
        (2, int32s(0, 2), 0, 2, None, "row 2: there is no such row"),
        (2, int32s(0, -1), 0, 2, None, "row -1: there is no such row"),
        (0, int32s(0), 0, 1, None, "row 0: there is no such row"),
        (2, int32s(0, 1), 1, 2, None, "the order has 2 rows, not 3"),
        (2, int32s(0, 1)[:-1], 0, 2, None, "the order has 1 rows, not 2"),
        (2, None, 1, 2, None, "rows 1 to 3 of 2 can not be"),
        (2, None, -1, 2, None, "rows -1 to 1 of 2 can not be"),
        (2, int32s(0, 1), 0, -1, None, "rows 0 to -1 of 2 can not be"),
        (-1, None, 0, 0, None, "rows 0 to 0 of -1 can not be"),
        (2, int32s(0, 1), 2**63 - 1, 1, None, r"rows|the order has 2 rows"),
        (2, None, 0, 2, bytes(15), "the timestamps have 1 rows, not 2"),
    ],
)
def test_rows_that_are_not_there_are_refused(
    columns: ModuleType,
    rows: int,
    order: bytes | None,
    first: int,
    count: int,
    timestamps: bytes | None,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        columns.encode_columns(rows, GOOD, GOOD, None, timestamps, order, first, count, 0, 1000)


def test_what_a_null_row_points_to_does_not_matter(columns: ModuleType) -> None:
    keys = Variable(b"\x02", int32s(9999, 0, 1), b"k")
    answer = columns.encode_columns(2, keys, None, None, None, None, 0, 2, 0, 1000)
    assert answer == expected([(0, None, None, None), (0, b"k", None, None)], 0, 1000)


def test_rows_behind_the_cut_are_not_looked_at(columns: ModuleType) -> None:
    answer = columns.encode_columns(2, GOOD, None, None, None, int32s(0, 77), 0, 1, 0, 1000)
    assert answer[1] == 1


def test_a_record_too_large_for_its_length_is_refused_before_it_is_copied(
    columns: ModuleType,
) -> None:
    with mmap.mmap(-1, 2**30 + 1) as nothing:
        half = Variable(None, int32s(0, 2**30 + 1), memoryview(nothing))
        with pytest.raises(ValueError, match=r"row 0: a record of more than 2\^31 bytes"):
            columns.encode_columns(1, half, half, None, None, None, 0, 1, 0, 1000)
        del half


numbers = st.integers(-2, 9) | st.integers(-(2**31), INT32_MAX)
raw_offsets = st.lists(numbers, max_size=8).map(lambda some: int32s(*some)) | st.binary(max_size=30)
starts = st.integers(0, 3) | st.integers(-1, 2**62)
wild_variables = st.builds(
    Variable, st.none() | st.binary(max_size=2), raw_offsets, st.binary(max_size=8), starts
)
wild_lists = st.builds(
    Nested,
    st.none() | st.binary(max_size=2),
    raw_offsets,
    wild_variables | st.just(GOOD),
    wild_variables | st.just(GOOD),
    starts,
)


def outcome(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except ValueError as error:
        return str(error)


@settings(max_examples=200)
@given(
    rows=st.integers(-1, 4),
    keys=st.none() | wild_variables | st.just(GOOD),
    values=st.none() | wild_variables | st.just(GOOD),
    headers=st.none() | wild_lists | st.just(LISTS),
    timestamps=st.none() | st.binary(min_size=24, max_size=40),
    order=st.none() | raw_offsets,
    first=st.integers(-1, 3),
    count=st.integers(-1, 4),
)
@example(2, GOOD, GOOD, LISTS, None, int32s(1, 0), 0, 2)
def test_both_say_the_same_to_anything(
    compiled: ModuleType,
    rows: int,
    keys: Variable | None,
    values: Variable | None,
    headers: Nested | None,
    timestamps: bytes | None,
    order: bytes | None,
    first: int,
    count: int,
) -> None:
    arguments = (rows, keys, values, headers, timestamps, order, first, count, 3, 50)
    wanted = outcome(_columns_np.encode_columns, *arguments)
    assert outcome(compiled.encode_columns, *arguments) == wanted
    if keys is not None:
        assert outcome(compiled.partitions_by_murmur2, keys, rows, count) == outcome(
            _columns_np.partitions_by_murmur2, keys, rows, count
        )


# --- partitions -------------------------------------------------------------------------------

MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""What Java's client answers, after the tests of Kafka itself."""


def partitions(answer: bytearray) -> list[int]:
    return list(struct.unpack(f"<{len(answer) // 4}i", answer))


@pytest.mark.parametrize("count", [1, 3, 1000, INT32_MAX])
def test_murmur2_is_that_of_java(columns: ModuleType, count: int) -> None:
    answer = columns.partitions_by_murmur2(binary(*MURMUR2, None), len(MURMUR2) + 1, count)
    positive = [(number & INT32_MAX) % count for number in MURMUR2.values()]
    assert partitions(answer) == [*positive, -1]


@settings(max_examples=50)
@given(keys=st.lists(maybe_bytes, max_size=30), count=st.integers(1, INT32_MAX))
def test_crc32_is_that_of_zlib(columns: ModuleType, keys: list[bytes | None], count: int) -> None:
    answer = columns.partitions_by_crc32(binary(*keys), len(keys), count)
    assert partitions(answer) == [zlib.crc32(key) % count if key else -1 for key in keys]


def test_no_partition_at_all_is_refused(columns: ModuleType) -> None:
    for count in (0, -1, 2**31):
        with pytest.raises(ValueError, match=f"2 rows in {count} partitions can not be"):
            columns.partitions_by_murmur2(GOOD, 2, count)
    with pytest.raises(ValueError, match="-1 rows in 3 partitions can not be"):
        columns.partitions_by_crc32(GOOD, -1, 3)


@pytest.mark.parametrize("partitioner", ["murmur2_random", "consistent_random"])
def test_a_real_producer_puts_the_keys_there_too(columns: ModuleType, partitioner: str) -> None:
    """librdkafka, with the brokers it brings along for tests."""
    keys = [bytes(range(start, start + size)) for size in range(1, 40) for start in (0, 60, 200)]
    found: dict[bytes, int] = {}
    producer = Producer({"test.mock.num.brokers": 1, "partitioner": partitioner})

    def delivered(error: Any, message: Any) -> None:
        assert error is None
        found[message.key()] = message.partition()

    for key in keys:
        producer.produce("keys", value=b"", key=key, on_delivery=delivered)
    assert producer.flush(60) == 0
    count = len(producer.list_topics("keys", timeout=60).topics["keys"].partitions)
    by = (
        columns.partitions_by_murmur2
        if partitioner == "murmur2_random"
        else columns.partitions_by_crc32
    )
    assert count > 1
    assert partitions(by(binary(*keys), len(keys), count)) == [found[key] for key in keys]
