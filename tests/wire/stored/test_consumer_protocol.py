"""Subscriptions and assignments of consumers in classic groups."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.stored.strategies import blobs, named_partitions, subscriptions

from barnabas.model.errors import DecodeError
from barnabas.wire.stored.consumer_protocol import (
    NamedPartitions,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

WHOLE = Subscription(
    topics=("t",),
    owned_partitions=(("t", (0, 1)),),
    generation_id=4,
    rack_id="r",
    user_data=b"\x07",
)
BYTES = "00000001 0001 74 00000001 07"
OWNED = "00000001 0001 74 00000002 00000000 00000001"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            f"0000 {BYTES}",
            replace(WHOLE, owned_partitions=(), generation_id=-1, rack_id=None, version=0),
        ),
        (f"0001 {BYTES} {OWNED}", replace(WHOLE, generation_id=-1, rack_id=None, version=1)),
        (f"0002 {BYTES} {OWNED} 00000004", replace(WHOLE, rack_id=None, version=2)),
        (f"0003 {BYTES} {OWNED} 00000004 0001 72", WHOLE),
    ],
)
def test_every_version_of_a_subscription(data: str, expected: Subscription) -> None:
    assert decode_subscription(bytes.fromhex(data)) == expected
    assert encode_subscription(expected) == bytes.fromhex(data)


def test_a_later_version_is_read_as_the_last_known() -> None:
    later = bytes.fromhex(f"0009 {BYTES} {OWNED} 00000004 0001 72 abcdef")
    assert decode_subscription(later) == replace(WHOLE, version=9)
    assert decode_assignment(bytes.fromhex(f"0009 {OWNED} ffffffff ab")) == (("t", (0, 1)),)


def test_an_assignment_as_librdkafka_writes_it() -> None:
    data = bytes.fromhex("0000 00000001 0006 6f7264657273 00000002 00000000 00000001 00000000")
    assert decode_assignment(data) == (("orders", (0, 1)),)
    assert encode_assignment((("orders", (0, 1)),), b"", 0) == data


@given(subscriptions)
def test_a_subscription_is_read_as_it_was_written(subscription: Subscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(named_partitions, st.none() | blobs)
def test_an_assignment_is_read_as_it_was_written(
    assigned: NamedPartitions, user_data: bytes | None
) -> None:
    assert decode_assignment(encode_assignment(assigned, user_data)) == assigned


@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_are_decoded_or_refused(data: bytes, versioned: bool) -> None:
    for tried in (data, b"\x00\x03" + data if versioned else b"\x00\x00" + data):
        with suppress(DecodeError):
            decode_subscription(tried)
        with suppress(DecodeError):
            decode_assignment(tried)


@pytest.mark.parametrize(
    "data",
    ["", "00", "ffff 00000000 ffffffff", "0000 7fffffff", "0000 00000001 0001 ff ffffffff"],
)
def test_what_is_none_of_it_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(bytes.fromhex(data))
    with pytest.raises(DecodeError):
        decode_assignment(bytes.fromhex(data))
