"""Producer snapshots: Kafka's format, every damage noticed."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barnabas.log.producers import Producer, ProducerStates, StoredBatch
from barnabas.log.snapshots import decode_snapshot, encode_snapshot
from barnabas.model.errors import DecodeError

NOW = 1_700_000_000_000
_LONG = st.integers(0, 2**62)


@st.composite
def stored_batches(draw: st.DrawFn) -> StoredBatch:
    first, delta = draw(st.integers(0, 2**31 - 1)), draw(st.integers(0, 1_000))
    offset = draw(_LONG)
    last = (first + delta) % 2**31
    return StoredBatch(first, last, offset, offset + delta, draw(st.integers(-1, 2**62)))


@st.composite
def producers(draw: st.DrawFn) -> Producer:
    producer = Producer(
        draw(st.integers(0, 2**15 - 1)),
        coordinator_epoch=draw(st.integers(-1, 2**31 - 1)),
        transaction_start=draw(st.integers(-1, 2**62)),
    )
    producer.batches.extend(draw(st.lists(stored_batches(), max_size=5)))
    return producer


def content(states: dict[int, Producer]) -> list[tuple[object, ...]]:
    return [
        (each, state.epoch, list(state.batches), state.coordinator_epoch, state.transaction_start)
        for each, state in states.items()
    ]


@given(st.dictionaries(_LONG, producers(), max_size=6))
def test_what_is_written_is_read_back(known: dict[int, Producer]) -> None:
    states = ProducerStates()
    states.restore(known.items())
    read = decode_snapshot(encode_snapshot(states), NOW)
    assert content(read) == content(known)
    for each, state in read.items():
        stamps = [batch.timestamp for batch in state.batches if batch.timestamp >= 0]
        heard = known[each].seen_ms if not state.batches else NOW
        assert state.seen_ms in (*stamps[-1:], heard)


def two_producers() -> bytes:
    first = Producer(3, coordinator_epoch=-1, transaction_start=-1)
    first.batches.append(StoredBatch(0, 4, 100, 104, NOW))
    first.batches.append(StoredBatch(5, 5, 110, 110, NOW + 1))
    second = Producer(0, seen_ms=NOW, coordinator_epoch=8, transaction_start=77)
    return encode_snapshot([(4_000, first), (4_001, second)])


def test_the_file_is_kafkas_version_1() -> None:
    rows = (
        struct.pack(">qhiqiqiq", 4_000, 3, 4, 104, 4, NOW, -1, -1)
        + struct.pack(">qhiqiqiq", 4_000, 3, 5, 110, 0, NOW + 1, -1, -1)
        + struct.pack(">qhiqiqiq", 4_001, 0, -1, -1, 0, NOW, 8, 77)
    )
    body = struct.pack(">i", 3) + rows
    assert two_producers() == struct.pack(">hI", 1, crc32c(body)) + body


def test_no_producers_is_a_file_too() -> None:
    assert decode_snapshot(encode_snapshot([]), NOW) == {}


def test_every_changed_byte_is_noticed() -> None:
    data = bytearray(two_producers())
    for position in range(len(data)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(DecodeError):
                decode_snapshot(bytes(data), NOW)
            data[position] ^= 1 << bit


def test_every_missing_or_added_byte_is_noticed() -> None:
    data = two_producers()
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode_snapshot(data[:size], NOW)
    with pytest.raises(DecodeError):
        decode_snapshot(data + b"\x00", NOW)


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_count_that_does_not_match_is_noticed_even_under_a_right_checksum(count: int) -> None:
    body = struct.pack(">i", count) + bytes(46 * 2)
    with pytest.raises(DecodeError, match="row count"):
        decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body, NOW)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    body = struct.pack(">i", len(data) // 46) + data
    whole = struct.pack(">hI", 1, crc32c(body)) + body
    try:
        decode_snapshot(whole, NOW)
    except DecodeError:
        assert len(data) % 46
