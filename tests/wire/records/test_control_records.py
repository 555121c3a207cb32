"""Markers that end a transaction, as Java writes and reads them."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.errors import DecodeError
from barnabas.wire.records.batch import parse_header, stamp
from barnabas.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    control_type,
    decode_marker,
    encode_marker,
    marker_batch,
)
from barnabas.wire.records.record import Record, decode_batch

JAVA = Path(__file__).parent / "java"


def control_record(key: bytes | None, value: bytes | None = None) -> Record:
    return Record(0, 0, key, value, [])


@pytest.mark.parametrize("committed", [True, False])
def test_java_and_we_write_the_same_marker(committed: bool) -> None:
    name = "commit" if committed else "abort"
    theirs = bytes.fromhex((JAVA / f"{name}.hex").read_text())
    marker = EndTransactionMarker(committed, coordinator_epoch=11)
    (record,) = decode_batch(theirs)
    assert decode_marker(record) == marker
    ours = bytearray(
        marker_batch(marker, timestamp=1700000000000, producer_id=42, producer_epoch=3)
    )
    stamp(ours, 0, base_offset=5, leader_epoch=4)
    assert ours == theirs
    assert parse_header(ours).is_control
    assert parse_header(ours).is_transactional


@given(committed=st.booleans(), epoch=st.integers(-(2**31), 2**31 - 1))
def test_round_trip(committed: bool, epoch: int) -> None:
    marker = EndTransactionMarker(committed, epoch)
    assert decode_marker(control_record(*encode_marker(marker))) == marker


def test_later_versions_may_add_fields() -> None:
    key, value = struct.pack(">hhi", 1, 1, 99), struct.pack(">hiq", 3, 12, 99)
    assert decode_marker(control_record(key, value)) == EndTransactionMarker(True, 12)


@pytest.mark.parametrize("kind", [-1, 7, 300])
def test_types_of_the_future_are_unknown_but_readable(kind: int) -> None:
    assert control_type(control_record(struct.pack(">hh", 0, kind))) is ControlType.UNKNOWN


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, struct.pack(">hi", 0, 1)),
        (b"\x00\x00\x00", struct.pack(">hi", 0, 1)),
        (struct.pack(">hh", -1, 1), struct.pack(">hi", 0, 1)),
        (struct.pack(">hh", 0, 2), struct.pack(">hi", 0, 1)),
        (struct.pack(">hh", 0, 9), struct.pack(">hi", 0, 1)),
        (struct.pack(">hh", 0, 1), None),
        (struct.pack(">hh", 0, 1), b"\x00\x00\x00\x00\x00"),
        (struct.pack(">hh", 0, 1), struct.pack(">hi", -1, 1)),
    ],
)
def test_what_is_no_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_marker(control_record(key, value))
