"""What compaction asks of the codec: the last offset of each key, and which records stay."""

from collections.abc import Sequence
from typing import Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.model.errors import DecodeError
from barnabas.wire.records import _codec_py
from barnabas.wire.records.errors import RecordError

Fields = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
Kept = tuple[int, bytes | None, bool, int]
SECRET = bytes(range(16))
BASE_MS = 1_000


class Offsets(Protocol):
    capacity: int

    def __len__(self) -> int: ...

    def note(
        self, data: bytes, count: int, base_offset: int, last_offset_delta: int, first_offset: int
    ) -> int: ...

    def keep(
        self,
        data: bytes,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        latest: int,
        tombstones: bool,
    ) -> Kept: ...


class Codec(Protocol):
    SLOT_BYTES: int

    def KeyOffsets(self, memory: int, load_factor: float, secret: bytes) -> Offsets: ...  # noqa: N802

    def rebase_records(self, data: bytes, count: int, shift: int) -> bytes: ...

    def encode_records(
        self, records: Sequence[Fields], base_offset: int, base_timestamp: int
    ) -> bytes: ...

    def decode_records(
        self, data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int
    ) -> list[Fields]: ...


@pytest.fixture(scope="module", params=["_codec", "_codec_py"])
def codec(request: pytest.FixtureRequest) -> Codec:
    module: Codec = pytest.importorskip(
        f"barnabas.wire.records.{request.param}", exc_type=ImportError
    )
    return module


def roomy(codec: Codec) -> Offsets:
    return codec.KeyOffsets(codec.SLOT_BYTES * 1_000, 0.9, SECRET)


keys = st.none() | st.sampled_from([b"", b"a", b"bb", b"a longer key than eight", b"\0" * 24])
values = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)


@st.composite
def records(draw: st.DrawFn) -> list[Fields]:
    found: list[Fields] = []
    offset = 99
    for gap in draw(st.lists(st.integers(1, 3), min_size=1, max_size=30)):
        offset += gap
        time = BASE_MS + draw(st.integers(-5, 300))
        found.append((offset, time, draw(keys), draw(values), draw(headers)))
    return found


@settings(max_examples=150)
@given(batch=records(), tombstones=st.booleans(), data=st.data())
def test_the_last_of_each_key_stays(
    codec: Codec, batch: list[Fields], tombstones: bool, data: st.DataObject
) -> None:
    first = data.draw(st.integers(100, batch[-1][0] + 1))
    latest = data.draw(st.integers(99, batch[-1][0]))
    offsets = roomy(codec)
    raw = codec.encode_records(batch, 100, BASE_MS)
    delta = batch[-1][0] - 100
    assert offsets.note(raw, len(batch), 100, delta, first) == -1
    known = {key: offset for offset, _, key, _, _ in batch if key is not None and offset >= first}
    assert len(offsets) == len(known)
    expected = [
        record
        for record in batch
        if record[0] > latest
        or (
            record[2] is not None
            and known.get(record[2], -1) <= record[0]
            and (record[3] is not None or tombstones)
        )
    ]
    count, body, has_tombstones, newest = offsets.keep(
        raw, len(batch), 100, delta, BASE_MS, latest, tombstones
    )
    assert count == len(expected)
    assert (body is None) == (count == len(batch))
    kept = raw if body is None else body
    assert codec.decode_records(kept, count, 100, BASE_MS, -1) == expected
    assert has_tombstones == any(record[3] is None for record in expected)
    if expected:
        assert newest == max(record[1] for record in expected)


@settings(max_examples=60)
@given(batch=records(), shift=st.integers(-(2**63), 2**63 - 1))
def test_records_move_to_another_base_time(codec: Codec, batch: list[Fields], shift: int) -> None:
    raw = codec.encode_records(batch, 100, BASE_MS)
    moved = codec.rebase_records(raw, len(batch), shift)
    assert moved == _codec_py.rebase_records(raw, len(batch), shift)
    base = (BASE_MS - shift + 2**63) % 2**64 - 2**63
    assert codec.decode_records(moved, len(batch), 100, base, -1) == batch


def test_different_keys_are_told_apart(codec: Codec) -> None:
    count = 20_000
    offsets = codec.KeyOffsets(codec.SLOT_BYTES * count * 2, 0.9, SECRET)
    batch: list[Fields] = [(at, 0, b"key-%d" % at, b"v", []) for at in range(count)]
    raw = codec.encode_records(batch, 0, 0)
    assert offsets.note(raw, count, 0, count - 1, 0) == -1
    assert len(offsets) == count
    kept = offsets.keep(raw, count, 0, count - 1, 0, count - 1, True)
    assert kept[:2] == (count, None)


def test_a_full_map_says_what_did_not_fit_and_still_takes_known_keys(codec: Codec) -> None:
    offsets = codec.KeyOffsets(codec.SLOT_BYTES * 10, 0.5, SECRET)
    assert offsets.capacity == 5
    batch: list[Fields] = [(at, 0, b"%d" % (at % 5), b"v", []) for at in range(20)]
    raw = codec.encode_records(batch, 0, 0)
    assert offsets.note(raw, 20, 0, 19, 0) == -1
    more: list[Fields] = [(20, 0, b"3", b"v", []), (21, 0, b"new", b"v", [])]
    assert offsets.note(codec.encode_records(more, 20, 0), 2, 20, 1, 0) == 21
    assert len(offsets) == 5


def test_even_the_least_memory_holds_one_key(codec: Codec) -> None:
    offsets = codec.KeyOffsets(0, 0.9, SECRET)
    assert offsets.capacity == 1
    raw = codec.encode_records([(0, 0, b"a", b"v", []), (1, 0, b"b", b"v", [])], 0, 0)
    assert offsets.note(raw, 2, 0, 1, 0) == 1
    assert offsets.keep(raw, 2, 0, 1, 0, 0, True)[:2] == (2, None)


def test_the_secret_has_sixteen_bytes(codec: Codec) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        codec.KeyOffsets(100, 0.9, b"short")


@pytest.mark.parametrize("damage", ["count", "length", "behind", "order"])
def test_nonsense_is_refused(codec: Codec, damage: str) -> None:
    offsets = roomy(codec)
    raw = codec.encode_records([(0, 0, b"a", b"v", []), (1, 0, b"b", b"v", [])], 0, 0)
    count, delta = 2, 1
    if damage == "count":
        count = 1_000
    elif damage == "length":
        raw = b"\x7f" + raw[1:]
    elif damage == "behind":
        delta = 0
    else:
        raw = raw[: len(raw) // 2] * 2
    with pytest.raises((DecodeError, RecordError)):
        offsets.note(raw, count, 0, delta, 0)
    with pytest.raises((DecodeError, RecordError)):
        offsets.keep(raw, count, 0, delta, 0, 5, True)
    if damage in ("count", "length"):
        with pytest.raises((DecodeError, RecordError)):
            codec.rebase_records(raw, count, 1)


def test_every_prefix_is_refused(codec: Codec) -> None:
    raw = codec.encode_records([(0, 0, b"a", b"v" * 9, [("h", b"x")])], 0, 0)
    for cut in range(len(raw)):
        with pytest.raises(DecodeError):
            roomy(codec).keep(raw[:cut], 1, 0, 0, 0, 0, True)
        with pytest.raises(DecodeError):
            codec.rebase_records(raw[:cut], 1, 5)
