"""The compiled codec and its twin: the same tests for both, and the same answers from both."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.model.errors import DecodeError
from barnabas.wire.records import _codec_py
from barnabas.wire.records.errors import RecordError

Header = tuple[str, bytes | None]
Fields = tuple[int, int, bytes | None, bytes | None, list[Header]]


class Codec(Protocol):
    def decode_records(
        self, data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int
    ) -> list[Fields]: ...

    def keyless_records(self, data: bytes, count: int, last_offset_delta: int) -> list[int]: ...

    def encode_records(
        self, records: Sequence[Fields], base_offset: int, base_timestamp: int
    ) -> bytes: ...


@pytest.fixture(scope="module", params=["_codec", "_codec_py"])
def codec(request: pytest.FixtureRequest) -> Codec:
    name = f"barnabas.wire.records.{request.param}"
    module: Codec = pytest.importorskip(name, exc_type=ImportError)
    return module


int64 = st.integers(-(2**63), 2**63 - 1)
maybe_bytes = st.none() | st.binary(max_size=40)
header_keys = st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
headers = st.lists(st.tuples(header_keys, maybe_bytes), max_size=4)
MIN_RECORD = bytes.fromhex("0c 00 00 00 01 01 00")
"""Null key, null value, no headers."""


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, int, list[Fields]]:
    base_offset = draw(st.integers(0, 2**62))
    gaps = draw(st.lists(st.integers(1, 2**20), max_size=8))
    records: list[Fields] = []
    offset = base_offset - 1
    for gap in gaps:
        offset += gap
        records.append((offset, draw(int64), draw(maybe_bytes), draw(maybe_bytes), draw(headers)))
    return base_offset, draw(int64), records


@settings(max_examples=50)
@given(batch=batches())
@example(batch=(0, 2**63 - 1, [(0, -(2**63), None, b"", [])]))
@example(batch=(0, 0, [(2**31 - 1, 5, b"", None, [("", None)] * 200)]))
def test_round_trip(codec: Codec, batch: tuple[int, int, list[Fields]]) -> None:
    base_offset, base_timestamp, records = batch
    data = codec.encode_records(records, base_offset, base_timestamp)
    assert codec.decode_records(data, len(records), base_offset, base_timestamp, -1) == records
    keyless = [index for index, record in enumerate(records) if record[2] is None]
    assert codec.keyless_records(data, len(records), 2**31 - 1) == keyless


@settings(max_examples=40)
@given(batch=batches())
def test_both_write_the_same_bytes(codec: Codec, batch: tuple[int, int, list[Fields]]) -> None:
    base_offset, base_timestamp, records = batch
    twin = _codec_py.encode_records(records, base_offset, base_timestamp)
    assert codec.encode_records(records, base_offset, base_timestamp) == twin


def outcome(codec: Codec, data: bytes, count: int) -> object:
    """What comes of decoding: the records, or the refusal in words."""
    try:
        return codec.decode_records(data, count, 2**40, 2**41, -1)
    except RecordError as error:
        return str(error), error.indexes
    except DecodeError as error:
        return str(error)


@given(data=st.binary(max_size=120), count=st.integers(-1, 20))
def test_any_bytes_get_the_same_answer(codec: Codec, data: bytes, count: int) -> None:
    assert outcome(codec, data, count) == outcome(_codec_py, data, count)


@given(
    batch=batches(),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    surplus=st.integers(-1, 1),
)
def test_changed_bytes_get_the_same_answer(
    codec: Codec,
    batch: tuple[int, int, list[Fields]],
    changes: list[tuple[int, int]],
    surplus: int,
) -> None:
    data = bytearray(codec.encode_records(batch[2], batch[0], batch[1]))
    for where, byte in changes:
        if data:
            data[where % len(data)] = byte
    count = len(batch[2]) + surplus
    assert outcome(codec, bytes(data), count) == outcome(_codec_py, bytes(data), count)


def test_cut_short_at_every_byte(codec: Codec) -> None:
    records: list[Fields] = [
        (0, 1, b"key", b"value", [("header", b"content")]),
        (1, 1, b"key", b"value", []),
    ]
    data = codec.encode_records(records, 0, 0)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            codec.decode_records(data[:size], 2, 0, 0, -1)
        with pytest.raises(DecodeError):
            codec.keyless_records(data[:size], 2, 1)


def test_a_view_is_as_good_as_bytes(codec: Codec) -> None:
    data = memoryview(b"##" + MIN_RECORD + b"##")[2:-2]
    assert codec.decode_records(data, 1, 7, 9, -1) == [(7, 9, None, None, [])]  # type: ignore[arg-type]


def test_append_time_is_every_records_time(codec: Codec) -> None:
    data = codec.encode_records([(0, 5, b"", b"", []), (1, 8, b"", b"", [])], 0, 5)
    assert [record[1] for record in codec.decode_records(data, 2, 0, 5, 77)] == [77, 77]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ("80 80 80 80 80 00 00", "number is too large"),  # a length of six bytes
        ("ff ff ff ff 10 00 00", "number is too large"),  # a length of 33 bits
        ("80 80 80 80 80 80 80", "number is too large"),
        ("ff ff ff ff ff ff ff", "number is too large"),
        ("0d 00 00 02 01 01 00", "length is not what follows"),  # a length of -7
        ("0e 00 00 02 01 01 00", "length is not what follows"),  # one byte more than there is
        ("00 00 00 02 01 01 00", "length is not what follows"),  # no length
        ("0e 00 00 02 01 01 00 00", "longer than its fields"),
        ("0c 00 00 02 03 01 00", "length of a field is not what follows"),  # a key of -2 bytes
        ("0c 00 00 02 06 01 00", "length of a field is not what follows"),
        ("0c 00 00 02 01 0a 00", "length of a field is not what follows"),
        ("0c 00 00 02 01 01 01", "count of headers is not what follows"),  # -1 headers
        ("0c 00 00 02 01 01 02", "count of headers is not what follows"),
        ("0e 00 00 02 01 01 02 00", "count of headers is not what follows"),  # half a header
        ("10 00 00 02 01 01 02 01 01", "header without a key"),
        ("10 00 00 02 01 01 02 00 08", "length of a field is not what follows"),
        ("12 00 00 02 01 01 02 00 01 00", "longer than its fields"),
        ("0c 00 00 01 01 01 00", "offset does not ascend"),  # an offset delta of -1
        ("02 00 00 02 01 01 00", "ends inside a number"),
        ("1e 00 ff ff ff ff ff ff ff ff ff 02 00 01 01 00", "number is too large"),  # 65 bits
        ("20 00 80 80 80 80 80 80 80 80 80 80 00 00 01 01 00", "number is too large"),
    ],
)
def test_what_is_wrong_with_a_record(codec: Codec, record: str, problem: str) -> None:
    data = MIN_RECORD + bytes.fromhex(record)
    for read in (
        lambda: codec.decode_records(data, 2, 0, 0, -1),
        lambda: codec.keyless_records(data, 2, 9),
    ):
        with pytest.raises(RecordError, match=problem) as refused:
            read()
        assert refused.value.index == 1


def test_padded_numbers_are_read_as_java_reads_them(codec: Codec) -> None:
    data = bytes.fromhex("a0 80 80 80 00 00") + b"\x80" * 9 + bytes.fromhex("00 00 81 00 01 00")
    assert codec.decode_records(data, 1, 0, 3, -1) == [(0, 3, None, None, [])]


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_count_that_can_not_be_is_refused_first(codec: Codec, count: int) -> None:
    with pytest.raises(DecodeError, match="can not be in 13 bytes"):
        codec.decode_records(MIN_RECORD + b"\x00" * 6, count, 0, 0, -1)


def test_bytes_left_over_are_refused(codec: Codec) -> None:
    with pytest.raises(DecodeError, match="7 bytes are left over after 1 records"):
        codec.decode_records(MIN_RECORD * 2, 1, 0, 0, -1)
    with pytest.raises(DecodeError, match="7 bytes are left over after 0 records"):
        codec.keyless_records(MIN_RECORD, 0, 0)


def test_offsets_beyond_the_last_are_refused(codec: Codec) -> None:
    data = codec.encode_records([(0, 0, b"", b"", []), (5, 0, b"", b"", [])], 0, 0)
    assert codec.keyless_records(data, 2, 5) == []
    with pytest.raises(RecordError, match="offset is too large"):
        codec.keyless_records(data, 2, 4)
    assert codec.decode_records(data, 2, 2**63 - 6, 0, -1)[1][0] == 2**63 - 1
    with pytest.raises(RecordError, match="offset is too large"):
        codec.decode_records(data, 2, 2**63 - 5, 0, -1)


@pytest.mark.parametrize("offsets", [[-1], [1, 1], [2, 1], [2**31], [-(2**63)]])
def test_offsets_that_can_not_be_written(codec: Codec, offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="does not ascend"):
        codec.encode_records([(offset, 0, None, None, []) for offset in offsets], 0, 0)


def test_times_that_can_not_be_written(codec: Codec) -> None:
    with pytest.raises(OverflowError):
        codec.encode_records([(0, 2**63, None, None, [])], 0, 0)


@pytest.mark.parametrize("wrong", ["text", 5, [1]])
def test_only_bytes_are_bytes(codec: Codec, wrong: object) -> None:
    with pytest.raises(TypeError):
        codec.encode_records([(0, 0, wrong, None, [])], 0, 0)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        codec.encode_records([(0, 0, None, None, [("key", wrong)])], 0, 0)  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", [b"bytes", None, 5])
def test_only_text_is_a_header_key(codec: Codec, wrong: object) -> None:
    with pytest.raises((TypeError, AttributeError)):
        codec.encode_records([(0, 0, None, None, [(wrong, b"")])], 0, 0)  # type: ignore[list-item]


def test_other_kinds_of_bytes_are_written_too(codec: Codec) -> None:
    data = codec.encode_records(
        [(0, 0, bytearray(b"key"), memoryview(b"value"), [("h", bytearray(b"x"))])],  # type: ignore[list-item]
        0,
        0,
    )
    assert codec.decode_records(data, 1, 0, 0, -1) == [(0, 0, b"key", b"value", [("h", b"x")])]


@pytest.mark.parametrize("pure", ["1", "0"])
def test_the_twin_can_be_asked_for(pure: str) -> None:
    program = "from barnabas.wire.records import codec as c; print(c.COMPILED, c._chosen.__name__)"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"BARNABAS_PURE": pure},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    built = importlib.util.find_spec("barnabas.wire.records._codec") is not None
    compiled = built and pure != "1"
    module = "_codec" if compiled else "_codec_py"
    assert printed == [str(compiled), f"barnabas.wire.records.{module}"]
