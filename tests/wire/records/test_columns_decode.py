"""Records to columns: the compiled codec and its twin, against the plain codec and pyarrow."""

import importlib.util
import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.model.errors import DecodeError
from barnabas.wire.records import _codec_py as plain
from barnabas.wire.records.columns import Taken
from barnabas.wire.records.errors import RecordError

Fields: TypeAlias = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]
INT64_MAX = 2**63 - 1
ALL = {"keys": True, "values": True, "headers": True}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

int64 = st.integers(-(2**63), INT64_MAX)
maybe_bytes = st.none() | st.binary(max_size=200)
header_names = st.binary(max_size=8).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
header_lists = st.lists(st.tuples(header_names, maybe_bytes), max_size=3)


@pytest.fixture(scope="module", params=["_columns", "_columns_np"])
def columns(request: pytest.FixtureRequest) -> ModuleType:
    name = f"barnabas.wire.records.{request.param}"
    module: ModuleType = pytest.importorskip(name, exc_type=ImportError)
    return module


def array(kind: Any, rows: int, column: Any) -> Any:
    """What Arrow sees there, after looking at every byte."""
    buffers = [column.validity, column.offsets, column.data]
    made = pa.Array.from_buffers(
        kind, rows, [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    )
    made.validate(full=True)
    return made


def rows_of(taken: Taken) -> list[Row]:
    count = taken.rows
    offsets = struct.unpack(f"<{count}q", taken.offsets)
    timestamps = struct.unpack(f"<{count}q", taken.timestamps)
    nothing: list[Any] = [None] * count
    keys = nothing if taken.keys is None else array(pa.binary(), count, taken.keys).to_pylist()
    values = (
        nothing if taken.values is None else array(pa.binary(), count, taken.values).to_pylist()
    )
    lists = nothing
    if taken.headers is not None:
        (elements,) = struct.unpack("<i", memoryview(taken.headers.offsets)[-4:])
        names = array(pa.string(), elements, taken.headers.names)
        contents = array(pa.binary(), elements, taken.headers.values)
        structs = pa.StructArray.from_arrays([names, contents], fields=list(HEADERS.value_type))
        made = pa.Array.from_buffers(
            HEADERS,
            count,
            [
                None if taken.headers.validity is None else pa.py_buffer(taken.headers.validity),
                pa.py_buffer(taken.headers.offsets),
            ],
            children=[structs],
        )
        made.validate(full=True)
        lists = [
            None if row is None else [(header["key"], header["value"]) for header in row]
            for row in made.to_pylist()
        ]
    return list(zip(offsets, timestamps, keys, values, lists, strict=True))


def expected(record: Fields) -> Row:
    offset, timestamp, key, value, headers = record
    shown = [
        (name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), content)
        for name, content in headers
    ]
    micros = min(max(timestamp * 1000, -(2**63)), INT64_MAX)
    return offset, micros, key, value, shown or None


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, int, list[Fields]]:
    base_offset = draw(st.integers(0, 2**62))
    gaps = draw(st.lists(st.integers(1, 2**15), max_size=12))
    records: list[Fields] = []
    offset = base_offset - 1
    for gap in gaps:
        offset += gap
        records.append(
            (offset, draw(int64), draw(maybe_bytes), draw(maybe_bytes), draw(header_lists))
        )
    return base_offset, draw(int64), records


@settings(max_examples=50)
@given(
    content=st.lists(batches(), max_size=4),
    low=st.none() | st.integers(0, 2**16),
    width=st.none() | st.integers(-1, 2**16),
)
@example(
    content=[(5, 2**63 - 1, [(5, -(2**63), None, b"", []), (6, 2**63 - 1, b"", None, [])])],
    low=None,
    width=None,
)
@example(content=[(0, 0, [(0, 1, None, b"x" * 70000, [("", None)] * 300)])], low=0, width=9)
def test_batches_become_columns(
    columns: ModuleType,
    content: list[tuple[int, int, list[Fields]]],
    low: int | None,
    width: int | None,
) -> None:
    decoder = columns.ColumnDecoder(**ALL)
    wanted: list[Row] = []
    for base_offset, base_timestamp, records in content:
        data = plain.encode_records(records, base_offset, base_timestamp)
        first = -(2**63) if low is None else base_offset + low
        end = INT64_MAX if width is None else max(first, 0) + width
        kept = [expected(record) for record in records if first <= record[0] < end]
        assert decoder.add(data, len(records), base_offset, base_timestamp, -1, first, end) == len(
            kept
        )
        wanted += kept
    assert decoder.rows == len(wanted)
    assert rows_of(decoder.take()) == wanted
    assert decoder.rows == decoder.size == 0
    assert rows_of(decoder.take()) == []


@settings(max_examples=30)
@given(batch=batches())
def test_size_counts_the_bytes_of_the_columns(
    columns: ModuleType, batch: tuple[int, int, list[Fields]]
) -> None:
    base_offset, base_timestamp, records = batch
    decoder = columns.ColumnDecoder(**ALL)
    data = plain.encode_records(records, base_offset, base_timestamp)
    decoder.add(data, len(records), base_offset, base_timestamp, -1, 0, INT64_MAX)
    size = decoder.size
    taken = decoder.take()
    assert size == sum(
        len(memoryview(column.data))
        for column in (taken.keys, taken.values, taken.headers.names, taken.headers.values)
    )


def add(decoder: Any, records: list[Fields], **changed: int) -> int:
    data = plain.encode_records(records, records[0][0], 0)
    asked = {"append_time": -1, "first": 0, "end": INT64_MAX, **changed}
    kept: int = decoder.add(memoryview(data), len(records), records[0][0], 0, **asked)
    return kept


TWO: list[Fields] = [(7, 1, b"k", b"v", [("h", b"1")]), (9, 2, None, None, [])]


def test_columns_not_asked_for_are_not_there(columns: ModuleType) -> None:
    decoder = columns.ColumnDecoder(keys=False, values=True, headers=False)
    add(decoder, TWO)
    assert decoder.size == 1
    taken = decoder.take()
    assert taken.keys is None
    assert taken.headers is None
    assert rows_of(taken) == [(7, 1000, None, b"v", None), (9, 2000, None, None, None)]


def test_where_nothing_is_null_there_is_no_bitmap(columns: ModuleType) -> None:
    decoder = columns.ColumnDecoder(**ALL)
    add(decoder, TWO[:1])
    taken = decoder.take()
    assert taken.keys.validity is taken.values.validity is taken.headers.validity is None


def test_the_append_time_is_every_record_s_timestamp(columns: ModuleType) -> None:
    decoder = columns.ColumnDecoder(**ALL)
    add(decoder, TWO, append_time=77)
    assert [row[1] for row in rows_of(decoder.take())] == [77000, 77000]


def test_what_was_taken_outlives_the_decoder(columns: ModuleType) -> None:
    decoder = columns.ColumnDecoder(**ALL)
    add(decoder, TWO)
    early = decoder.take()
    add(decoder, [(0, 0, b"x" * 9999, b"y" * 9999, [])])
    late = decoder.take()
    del decoder
    assert rows_of(early) == [expected(record) for record in TWO]
    assert rows_of(late) == [(0, 0, b"x" * 9999, b"y" * 9999, None)]


# --- what must be refused ---------------------------------------------------------------------


def outcome(call: Any) -> tuple[Any, ...]:
    try:
        return ("rows", call())
    except DecodeError as error:
        return (type(error), str(error), getattr(error, "indexes", None))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[int, int, int, bytes]:
    base_offset, base_timestamp, records = draw(batches())
    data = bytearray(plain.encode_records(records, base_offset, base_timestamp))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        piece = draw(st.binary(max_size=3))
        data[place : place + draw(st.integers(0, 3))] = piece
    count = len(records) + draw(st.sampled_from([0, 0, 0, 1, -1]))
    base = draw(st.sampled_from([base_offset, INT64_MAX - 5, -3]))
    return base, base_timestamp, count, bytes(data)


@settings(max_examples=120)
@given(case=damaged(), headers=st.booleans())
@example(case=(0, 0, 1, bytes.fromhex("0c 00 00 00 01 01 00")), headers=True)
@example(case=(0, 0, 10**12, bytes(70)), headers=True)
@example(case=(0, 0, 1, bytes.fromhex("14 00 00 00 01 01 80808001 0000")), headers=False)
@example(case=(0, 0, 1, bytes.fromhex("12 00 00 00 01 01 02 01 01")), headers=True)
@example(case=(0, 0, 1, bytes.fromhex("20 00 ffffffffffffffffff7f 00 01 01 00")), headers=True)
def test_damage_is_refused_as_the_plain_codec_does_and_leaves_no_trace(
    columns: ModuleType, case: tuple[int, int, int, bytes], headers: bool
) -> None:
    base_offset, base_timestamp, count, data = case
    wanted = outcome(
        lambda: [
            expected(record)
            for record in plain.decode_records(data, count, base_offset, base_timestamp, -1)
            if record[0] >= 0
        ]
    )
    decoder = columns.ColumnDecoder(keys=True, values=True, headers=True)
    blind = columns.ColumnDecoder(keys=False, values=False, headers=headers)
    add(decoder, TWO)
    size = decoder.size
    arguments = (data, count, base_offset, base_timestamp, -1, 0, INT64_MAX)
    found = outcome(lambda: decoder.add(*arguments))
    blindly = outcome(lambda: blind.add(*arguments))
    before = [expected(record) for record in TWO]
    after = [expected((1, 5, None, b"later", []))]
    if wanted[0] == "rows":
        # An offset of 2**63 - 1 is the one that no `end` can be behind.
        kept = [row for row in wanted[1] if row[0] < INT64_MAX]
        assert found == blindly == ("rows", len(kept))
        before += kept
    else:
        assert found == blindly == wanted
        assert (decoder.rows, decoder.size) == (2, size)
    add(decoder, [(1, 5, None, b"later", [])])
    assert rows_of(decoder.take()) == before + after


def test_a_batch_that_breaks_off_late_takes_its_nulls_back(columns: ModuleType) -> None:
    """The bitmap too is as it was."""
    null: list[Fields] = [(offset, 0, None, None, []) for offset in range(50)]
    valid: list[Fields] = [(offset, 0, b"k", b"v", [("h", b"")]) for offset in range(50)]
    decoder = columns.ColumnDecoder(**ALL)
    add(decoder, valid[:3])
    data = plain.encode_records(null, 0, 0)
    with pytest.raises(RecordError, match="record 49"):
        decoder.add(data[:-1] + b"\x02", 50, 0, 0, -1, 0, INT64_MAX)
    with pytest.raises(DecodeError, match="left over"):
        decoder.add(data + b"\x02", 50, 0, 0, -1, 0, INT64_MAX)
    add(decoder, valid)
    taken = decoder.take()
    assert taken.keys.validity is taken.headers.validity is None
    assert rows_of(taken) == [expected(record) for record in valid[:3] + valid]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((0, 0, b"12345", b"", []), "a column of keys has no room for more than 8 bytes"),
        ((0, 0, b"", b"12345", []), "a column of values has no room for more than 8 bytes"),
        ((0, 0, None, None, [("12345", None)]), "a column of header names"),
        ((0, 0, None, None, [("\udcff\udcff", None)]), "a column of header names"),
        ((0, 0, None, None, [("", b"12345")]), "a column of header values"),
        ((0, 0, None, None, [("", None)] * 5), "no more than 8 headers"),
    ],
)
def test_a_column_that_is_full_says_so_and_is_unchanged(
    columns: ModuleType, record: Fields, message: str
) -> None:
    """Offsets of 32 bits must not run over: the limit itself is lowered here."""
    decoder = columns.ColumnDecoder(**ALL, column_bytes_max=8)
    first: Fields = (0, 0, b"1234", b"1234", [("12", b"12"), ("", None), ("34", b"34"), ("", b"")])
    add(decoder, [first])
    with pytest.raises(OverflowError, match=message):
        add(decoder, [record])
    assert (decoder.rows, decoder.size) == (1, 16)
    assert rows_of(decoder.take()) == [expected(first)]
    add(decoder, [record])
    assert rows_of(decoder.take()) == [expected(record)]


def test_a_limit_that_offsets_could_not_count_is_refused(columns: ModuleType) -> None:
    for limit in (2**31, -1):
        with pytest.raises(ValueError, match="a column has at most 2147483647 bytes"):
            columns.ColumnDecoder(**ALL, column_bytes_max=limit)


def test_memory_is_given_back(columns: ModuleType) -> None:
    def resident_bytes() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    decoder = columns.ColumnDecoder(**ALL)
    large: list[Fields] = [(0, 0, b"k" * 250_000, b"v" * 250_000, [("h", b"x" * 500_000)])]
    spoilt = plain.encode_records(large, 0, 0) + b"\0"

    def some_rounds() -> None:
        for _ in range(100):
            add(decoder, large)
            decoder.take()
            with pytest.raises(DecodeError):
                decoder.add(spoilt, 1, 0, 0, -1, 0, INT64_MAX)
            columns.ColumnDecoder(**ALL)

    some_rounds()
    before = resident_bytes()
    some_rounds()
    assert resident_bytes() - before < 20_000_000


def test_decoders_of_several_threads_do_not_meet(columns: ModuleType) -> None:
    records: list[Fields] = [(i, i, b"k%d" % i, b"v" * (i % 90), []) for i in range(500)]

    def gather(_: int) -> list[Row]:
        decoder = columns.ColumnDecoder(**ALL)
        for _ in range(5):
            add(decoder, records)
        return rows_of(decoder.take())

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(gather, range(8)))
    assert all(result == [expected(record) for record in records] * 5 for result in results)


@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_twin_can_be_asked_for(pure: str) -> None:
    built = importlib.util.find_spec("barnabas.wire.records._columns") is not None
    program = "from barnabas.wire.records import columns; print(columns.COMPILED)"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "BARNABAS_PURE": pure},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == str(built and pure == "0")
