"""Records of the transaction log: the very bytes of Kafka, old versions, and any value at all."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.stored.strategies import int8s, int32s, int64s, names, numbers

from barnabas.model.errors import DecodeError
from barnabas.wire.stored.codec import Ignored
from barnabas.wire.stored.transactions import (
    TransactionLog,
    TransactionLogValue,
    decode_transaction_log,
    encode_transaction_log,
)

WRITTEN_BY_KAFKA = [
    (bytes.fromhex(key), None if value == "null" else bytes.fromhex(value))
    for key, value in (
        line.split()
        for line in (Path(__file__).parent / "transactions_by_kafka_4_3_1.txt")
        .read_text()
        .splitlines()
    )
]
"""One record of every shape from a `__transaction_state-0`: both generations, every state."""

int16s = st.integers(-(2**15), 2**15 - 1)
values = st.builds(
    TransactionLogValue,
    producer_id=int64s,
    previous_producer_id=int64s,
    next_producer_id=int64s,
    producer_epoch=int16s,
    next_producer_epoch=int16s,
    timeout_ms=int32s,
    status=int8s,
    partitions=st.none() | st.lists(st.tuples(names, numbers), max_size=3).map(tuple),
    last_update_timestamp=int64s,
    start_timestamp=int64s,
    client_transaction_version=int16s,
)
records = st.builds(TransactionLog, names, st.none() | values)

KEY = bytes.fromhex("0000 0001 78")
OPEN = TransactionLogValue(
    producer_id=7,
    producer_epoch=2,
    timeout_ms=5,
    status=1,
    partitions=(("t", (0, 3)),),
    last_update_timestamp=9,
    start_timestamp=8,
)


@pytest.mark.parametrize(("key", "value"), WRITTEN_BY_KAFKA)
def test_what_kafka_wrote_is_read_and_written_back_byte_for_byte(
    key: bytes, value: bytes | None
) -> None:
    record = decode_transaction_log(key, value)
    assert isinstance(record, TransactionLog)
    assert encode_transaction_log(record) == (key, value)


def test_kafka_wrote_every_state_of_either_generation() -> None:
    seen = {
        (record.value.status, record.value.client_transaction_version)
        for record in (decode_transaction_log(*each) for each in WRITTEN_BY_KAFKA)
        if isinstance(record, TransactionLog) and record.value is not None
    }
    assert seen == {(status, version) for status in range(6) for version in (0, 2)}


@given(records)
def test_a_record_is_read_as_it_was_written(record: TransactionLog) -> None:
    assert decode_transaction_log(*encode_transaction_log(record)) == record


def test_every_tagged_field_in_its_place() -> None:
    value = TransactionLogValue(
        producer_id=7,
        previous_producer_id=6,
        next_producer_id=8,
        producer_epoch=2,
        next_producer_epoch=1,
        timeout_ms=5,
        status=4,
        partitions=(),
        last_update_timestamp=9,
        start_timestamp=8,
        client_transaction_version=2,
    )
    assert encode_transaction_log(TransactionLog("x", value)) == (
        KEY,
        bytes.fromhex(
            "0001 0000000000000007 0002 00000005 04 01 0000000000000009 0000000000000008"
            "04 00 08 0000000000000006 01 08 0000000000000008 02 02 0002 03 02 0001"
        ),
    )


def test_the_version_before_the_flexible_one_is_read() -> None:
    old = bytes.fromhex(
        "0000 0000000000000007 0002 00000005 01 00000001 0001 74 00000002 00000000 00000003"
        "0000000000000009 0000000000000008"
    )
    assert decode_transaction_log(KEY, old) == TransactionLog("x", OPEN)
    none = bytes.fromhex(
        "0000 0000000000000007 0002 00000005 00 ffffffff 0000000000000009 ffffffffffffffff"
    )
    record = decode_transaction_log(KEY, none)
    assert isinstance(record, TransactionLog)
    assert record.value is not None
    assert record.value.partitions is None


def test_what_a_later_kafka_adds_is_passed_over() -> None:
    _, value = encode_transaction_log(TransactionLog("x", OPEN))
    assert value is not None
    assert value.endswith(b"\x00")
    more = value[:-1] + bytes.fromhex("01 09 02 ffff")
    assert decode_transaction_log(KEY, more) == TransactionLog("x", OPEN)


def test_unknown_versions_of_key_and_value_are_ignored() -> None:
    assert decode_transaction_log(bytes.fromhex("0001 0001 78"), b"") == Ignored(1)
    assert decode_transaction_log(KEY, bytes.fromhex("0002 00")) == Ignored(0)
    assert decode_transaction_log(KEY, bytes.fromhex("ffff 00")) == Ignored(0)


@given(records)
def test_every_truncation_is_refused(record: TransactionLog) -> None:
    key, value = encode_transaction_log(record)
    for end in range(len(key)):
        with pytest.raises(DecodeError):
            decode_transaction_log(key[:end], value)
    for end in range(len(value or b"")):
        with pytest.raises(DecodeError):
            decode_transaction_log(key, (value or b"")[:end])


@given(st.binary(max_size=40), st.sampled_from([b"\x00\x00", b"\x00\x01"]), st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused(key: bytes, version: bytes, value: bytes) -> None:
    with suppress(DecodeError):
        decode_transaction_log(b"\x00\x00" + key, version + value)


@given(records, st.data())
def test_mutated_records_are_decoded_or_refused(
    record: TransactionLog, data: st.DataObject
) -> None:
    key, value = encode_transaction_log(record)
    mutated = bytearray(value if value is not None else key)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.integers(0, 255))
    with suppress(DecodeError):
        decode_transaction_log(key, bytes(mutated))
    with suppress(DecodeError):
        decode_transaction_log(bytes(mutated), value)


def test_a_name_that_does_not_fit_is_not_written() -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        encode_transaction_log(TransactionLog("x" * 32768, OPEN))
