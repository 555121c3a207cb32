"""Damaged records are refused with DecodeError and with nothing else, at no cost in memory."""

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.stored.strategies import stored_records

from barnabas.model.errors import DecodeError
from barnabas.wire.stored import OffsetCommit, OffsetValue, Stored, decode, encode

KINDS = st.integers(0, 23).map(lambda kind: kind.to_bytes(2, "big"))
VERSIONS = st.integers(0, 4).map(lambda version: version.to_bytes(2, "big"))


@given(KINDS, st.binary(max_size=80), VERSIONS, st.none() | st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused(
    kind: bytes, key: bytes, version: bytes, value: bytes | None
) -> None:
    with suppress(DecodeError):
        decode(kind + key, None if value is None else version + value)


@given(stored_records, st.data())
def test_mutated_records_are_decoded_or_refused(record: Stored, data: st.DataObject) -> None:
    key, value = encode(record)
    mutated = bytearray(key if value is None or data.draw(st.booleans()) else value)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.integers(0, 255))
    with suppress(DecodeError):
        decode(bytes(mutated), value)
    with suppress(DecodeError):
        decode(key, bytes(mutated))


@given(stored_records)
def test_every_truncation_is_refused(record: Stored) -> None:
    key, value = encode(record)
    for end in range(len(key)):
        with pytest.raises(DecodeError):
            decode(key[:end], value)
    for end in range(len(value or b"")):
        with pytest.raises(DecodeError):
            decode(key, (value or b"")[:end])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0001 0001 ff 0001 74 00000007", None),
        ("0001 ffff 0001 74 00000007", None),
        ("0001 0001 67 0001 74 00000007", "0004 0000000000000005 00000002 00 0000000000000009 00"),
        ("0001 0001 67 0001 74 00000007", "0004 0000000000000005 00000002 02 ff 0000000000000009"),
        ("0002 0001 67", "0003 0000 00000000 ffff ffff 0000000000000000 ffffffff"),
    ],
)
def test_text_that_is_none_and_null_where_none_may_be_are_refused(
    key: str, value: str | None
) -> None:
    with pytest.raises(DecodeError):
        decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0002 0001 67", "0003 0000 00000000 ffff ffff 0000000000000000 7fffffff"),
        ("0002 0001 67", "0004 01 00000000 00 00 0000000000000000 ffffffff0f"),
        ("0007 0001 67 0001 61", "0000 ffffffff0f"),
        ("0007 0001 67 0001 61", "0000 02 00000000000000000000000000000000 ffffffff0f"),
        ("0005 0001 67 0001 61", "0000 00 00 01 01 ffffffff0f"),
    ],
)
def test_counts_that_claim_too_much_cost_nothing(key: str, value: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(bytes.fromhex(key), bytes.fromhex(value))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_what_does_not_fit_into_a_record_is_not_written() -> None:
    value = OffsetValue(offset=0, commit_timestamp=0)
    with pytest.raises(ValueError, match="32768 bytes"):
        encode(OffsetCommit("g" * 32768, "t", 0, value))
    with pytest.raises(ValueError, match="topic id of 3 bytes"):
        encode(
            OffsetCommit("g", "t", 0, OffsetValue(offset=0, commit_timestamp=0, topic_id=b"abc"))
        )
