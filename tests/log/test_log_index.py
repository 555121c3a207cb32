"""The sparse indexes: what they say, how their files look, what padding and damage do to them."""

import struct
from bisect import bisect_right
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from barnabas.log.index import OffsetIndex, TimeIndex, stored_before, stored_floor

_INT = st.integers(0, 2**31 - 1)
_TIME = st.integers(0, 2**63 - 1)
_OFFSET_ENTRIES = st.lists(st.tuples(_INT, _INT), max_size=30, unique_by=lambda entry: entry[0])
_TIME_ENTRIES = st.lists(st.tuples(_TIME, _INT), max_size=30)


def offset_index(entries: list[tuple[int, int]]) -> tuple[OffsetIndex, list[tuple[int, int]]]:
    """An index of rising offsets at rising positions, and the entries it was made of."""
    offsets = sorted(offset for offset, _ in entries)
    positions = sorted(position for _, position in entries)
    index = OffsetIndex()
    for offset, position in zip(offsets, positions, strict=True):
        index.add(offset, position)
    return index, list(zip(offsets, positions, strict=True))


@given(_OFFSET_ENTRIES, _INT)
def test_the_floor_of_an_offset_is_the_last_entry_not_above_it(
    entries: list[tuple[int, int]], asked: int
) -> None:
    index, rising = offset_index(entries)
    for offset in (asked, *(near for each, _ in rising for near in (each - 1, each, each + 1))):
        below = [position for each, position in rising if each <= offset]
        assert index.floor(offset) == (below[-1] if below else 0)
    assert index.last() == (rising[-1] if rising else None)


@given(_TIME_ENTRIES, _TIME)
def test_everything_up_to_the_floor_of_a_time_is_older(
    entries: list[tuple[int, int]], asked: int
) -> None:
    index = TimeIndex()
    kept: list[tuple[int, int]] = []
    for timestamp, offset in entries:
        tells_news = not kept or (timestamp > kept[-1][0] and offset >= kept[-1][1])
        assert index.maybe_add(timestamp, offset) == tells_news
        if tells_news:
            kept.append((timestamp, offset))
    for timestamp in (asked, *(near for each, _ in kept for near in (each - 1, each, each + 1))):
        older = [entry for entry in kept if entry[0] < timestamp]
        assert index.before(timestamp) == (older[-1] if older else None)
    assert index.last() == (kept[-1] if kept else None)


def read_from(data: bytes) -> Callable[[int, int], bytes]:
    def read_at(length: int, position: int) -> bytes:
        assert 0 <= position <= len(data) - length, "a read outside the file"
        return data[position : position + length]

    return read_at


@given(_OFFSET_ENTRIES, st.integers(0, 40), _INT)
def test_a_look_into_the_file_says_what_the_index_says(
    entries: list[tuple[int, int]], padding: int, asked: int
) -> None:
    index, rising = offset_index(entries)
    data = index.to_bytes() + bytes(padding)
    for offset in (asked, *(near for each, _ in rising for near in (each - 1, each, each + 1))):
        assert stored_floor(read_from(data), len(data), offset) == index.floor(offset)


@given(_TIME_ENTRIES, st.integers(0, 40), _TIME)
def test_a_look_into_the_file_of_times_too(
    entries: list[tuple[int, int]], padding: int, asked: int
) -> None:
    index = TimeIndex()
    stamps = [stamp for stamp, offset in entries if index.maybe_add(stamp, offset)]
    data = index.to_bytes() + bytes(padding if stamps else 0)
    for stamp in (asked, *(near for each in stamps for near in (each - 1, each, each + 1))):
        assert stored_before(read_from(data), len(data), stamp) == index.before(stamp)


@given(st.binary(max_size=200), _INT, _TIME)
def test_a_look_into_any_bytes_ends(data: bytes, offset: int, stamp: int) -> None:
    assert -(2**31) <= stored_floor(read_from(data), len(data), offset) < 2**31
    entry = stored_before(read_from(data), len(data), stamp)
    assert entry is None or entry[0] < stamp


def test_a_time_index_takes_no_negative_times() -> None:
    index = TimeIndex()
    assert not index.maybe_add(-1, 5)
    assert (len(index), index.before(10)) == (0, None)


def test_the_files_are_big_endian_pairs_as_kafka_writes_them() -> None:
    offsets, times = OffsetIndex(), TimeIndex()
    offsets.add(7, 4_097)
    offsets.add(19, 70_000)
    times.maybe_add(1_700_000_000_000, 7)
    times.maybe_add(1_700_000_000_001, 19)
    assert offsets.to_bytes() == struct.pack(">iiii", 7, 4_097, 19, 70_000)
    assert times.to_bytes() == struct.pack(">qiqi", 1_700_000_000_000, 7, 1_700_000_000_001, 19)


@given(_OFFSET_ENTRIES, st.integers(0, 5))
def test_zeros_that_kafka_allocates_ahead_are_no_entries(
    entries: list[tuple[int, int]], padding: int
) -> None:
    index, rising = offset_index(entries)
    read = OffsetIndex.from_bytes(index.to_bytes() + bytes(8 * padding))
    if rising:
        assert read.to_bytes() == index.to_bytes()
    assert all(read.floor(offset) == index.floor(offset) for offset in range(100))


@given(_TIME_ENTRIES, st.integers(2, 5))
def test_nor_are_they_times_in_1970(entries: list[tuple[int, int]], padding: int) -> None:
    index = TimeIndex()
    for entry in entries:
        index.maybe_add(*entry)
    read = TimeIndex.from_bytes(index.to_bytes() + bytes(12 * padding))
    assert read.last() == (index.last() if any(index.to_bytes()) else None)


def test_a_single_entry_of_zeros_is_a_record_of_1970() -> None:
    index = TimeIndex()
    index.maybe_add(0, 0)
    assert TimeIndex.from_bytes(index.to_bytes()).last() == (0, 0)


@given(_OFFSET_ENTRIES, _TIME_ENTRIES)
def test_a_file_cut_anywhere_keeps_its_whole_entries(
    offsets: list[tuple[int, int]], times: list[tuple[int, int]]
) -> None:
    data = offset_index(offsets)[0].to_bytes()
    time_index = TimeIndex()
    for entry in times:
        time_index.maybe_add(*entry)
    time_data = time_index.to_bytes()
    for cut in range(0, len(data), 3):
        assert OffsetIndex.from_bytes(data[:cut]).to_bytes() == data[: cut - cut % 8]
    for cut in range(0, len(time_data), 5):
        assert TimeIndex.from_bytes(time_data[:cut]).to_bytes() == time_data[: cut - cut % 12]


def entry_by_entry(data: bytes) -> list[tuple[int, int]]:
    """What an offset index file says, told the slow and obvious way."""
    kept: list[tuple[int, int]] = []
    for offset, position in struct.iter_unpack(">ii", data[: len(data) - len(data) % 8]):
        if position < 0 or offset <= (kept[-1][0] if kept else -1):
            break
        kept.append((offset, position))
    return kept


def time_by_time(data: bytes) -> list[tuple[int, int]]:
    """The same for a time index."""
    kept: list[tuple[int, int]] = []
    index = TimeIndex()
    if len(data) >= 24 and not any(data):
        return kept
    for timestamp, offset in struct.iter_unpack(">qi", data[: len(data) - len(data) % 12]):
        if not index.maybe_add(timestamp, offset):
            break
        kept.append((timestamp, offset))
    return kept


_NEAR = st.integers(-2, 6)


@given(st.lists(st.tuples(_NEAR, _NEAR), max_size=12), st.integers(0, 30))
def test_whole_columns_are_read_as_entry_by_entry_would_be(
    entries: list[tuple[int, int]], padding: int
) -> None:
    data = b"".join(struct.pack(">ii", *entry) for entry in entries) + bytes(padding)
    assert list(struct.iter_unpack(">ii", OffsetIndex.from_bytes(data).to_bytes())) == (
        entry_by_entry(data)
    )
    data = b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(padding)
    assert list(struct.iter_unpack(">qi", TimeIndex.from_bytes(data).to_bytes())) == (
        time_by_time(data)
    )


@given(st.binary(max_size=200))
def test_any_bytes_make_an_index_whose_entries_rise(data: bytes) -> None:
    offsets, times = OffsetIndex.from_bytes(data), TimeIndex.from_bytes(data)
    read = struct.unpack(f">{2 * len(offsets)}i", offsets.to_bytes())
    assert list(read[0::2]) == sorted(set(read[0::2]))
    assert all(position >= 0 for position in read[1::2])
    stamps = [entry[0] for entry in struct.iter_unpack(">qi", times.to_bytes())]
    assert stamps == sorted(set(stamps))
    assert [times.before(stamp + 1) for stamp in stamps] == [
        *struct.iter_unpack(">qi", times.to_bytes())
    ]
    assert bisect_right(stamps, -1) == 0
