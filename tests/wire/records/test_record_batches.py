"""Whole batches: what is written is read again, and what is damaged is refused."""

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.model.errors import DecodeError
from barnabas.wire.records import batch as batch_header
from barnabas.wire.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    assemble,
    parse_header,
    problem_of,
)
from barnabas.wire.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD
from barnabas.wire.records.errors import RecordError, UnknownCodecError
from barnabas.wire.records.record import (
    Record,
    check_records,
    decode_batch,
    encode_batch,
    recompress,
    rewrite_batch,
)

ALL_CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
codecs = pytest.mark.parametrize("codec", ALL_CODECS, ids=CODEC_NAMES.get)
LIMIT = 1 << 16

maybe_bytes = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3)
timestamps = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**41)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**60))
    records = []
    for _ in range(draw(st.integers(0, 6))):
        key, value = draw(maybe_bytes), draw(maybe_bytes)
        records.append(Record(offset, draw(timestamps), key, value, draw(headers)))
        offset += draw(st.integers(1, 1000))
    return records


SAMPLE = [
    Record(50, 1_000, b"a", b"first", [("h", b"x")]),
    Record(51, 999, None, b"keyless", []),
    Record(53, 1_002, b"b", None, []),
    Record(54, 1_001, None, None, [("empty", None)]),
]


def with_header(batch: bytes, **changes: int) -> bytes:
    """The batch with other header fields and a CRC that fits them."""
    return assemble(parse_header(batch)._replace(**changes), batch[HEADER_BYTES:])


@codecs
@settings(max_examples=40)
@given(records=record_lists())
def test_round_trip(codec: int, records: list[Record]) -> None:
    batch = encode_batch(records, codec=codec)
    header = parse_header(batch)
    assert problem_of(batch, 0, header) is None
    assert decode_batch(batch) == records
    assert header.count == len(records)
    if records:
        assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
        assert header.codec == codec
        assert header.max_timestamp == max(record.timestamp for record in records)


def test_the_header_says_what_it_was_told() -> None:
    batch = encode_batch(
        SAMPLE,
        base_offset=40,
        codec=ZSTD,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=2,
        base_sequence=11,
        transactional=True,
        control=True,
    )
    header = parse_header(batch)
    assert header == BatchHeader(
        base_offset=40,
        length=len(batch) - 12,
        leader_epoch=3,
        magic=2,
        crc=header.crc,
        attributes=0x34,
        last_offset_delta=14,
        base_timestamp=1_000,
        max_timestamp=1_002,
        producer_id=7,
        producer_epoch=2,
        base_sequence=11,
        count=4,
    )
    assert decode_batch(batch) == SAMPLE


def test_records_without_offsets_are_numbered() -> None:
    batch = encode_batch([(5, b"k", b"v", []), (6, None, None, [])], base_offset=9)
    assert decode_batch(batch) == [Record(9, 5, b"k", b"v", []), Record(10, 6, None, None, [])]
    assert decode_batch(encode_batch([(5, b"", b"", [])]))[0].offset == 0


def test_an_empty_batch_is_never_compressed() -> None:
    batch = encode_batch([], base_offset=4, codec=SNAPPY)
    assert len(batch) == HEADER_BYTES
    assert parse_header(batch).codec == NONE
    assert decode_batch(batch) == []
    # Other writers may leave the codec's bits as they were.
    assert decode_batch(with_header(batch, attributes=GZIP)) == []


def test_a_batch_in_the_middle_of_a_buffer() -> None:
    batch = encode_batch(SAMPLE, codec=LZ4)
    buffer = memoryview(bytearray(b"#" * 5 + batch + batch))
    assert decode_batch(buffer, 5) == decode_batch(buffer, 5 + len(batch)) == SAMPLE


def test_header_keys_that_are_not_text_survive() -> None:
    batch = encode_batch([Record(0, 0, None, None, [("HERE", b"v")])])
    damaged = batch.replace(b"HERE", b"\xff\xc3\x28\x80")
    batch = assemble(parse_header(damaged), damaged[HEADER_BYTES:])
    (record,) = decode_batch(batch)
    assert record.headers == [("\udcff\udcc3(\udc80", b"v")]
    assert encode_batch([record]) == batch


def test_log_append_time_is_the_time_of_all() -> None:
    batch = bytearray(encode_batch(SAMPLE))
    batch_header.stamp_append_time(batch, 0, parse_header(batch), 5_000)
    assert [record.timestamp for record in decode_batch(batch)] == [5_000] * 4


@pytest.mark.parametrize("count", [0, 3, 5, 2**31 - 1, -1])
@codecs
def test_the_count_must_be_exact(codec: int, count: int) -> None:
    batch = with_header(encode_batch(SAMPLE, codec=codec), count=count)
    with pytest.raises(DecodeError):
        decode_batch(batch)
    with pytest.raises(DecodeError):
        check_records(batch, require_keys=False)


def test_records_lie_within_the_offsets_of_their_batch() -> None:
    batch = with_header(encode_batch(SAMPLE), last_offset_delta=3)
    with pytest.raises(DecodeError, match="last offset"):
        decode_batch(batch)
    with pytest.raises(RecordError) as refused:
        check_records(batch, require_keys=False)
    assert refused.value.index == 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"last_offset_delta": -1}, "negative offsets"),
        ({"base_offset": -1}, "negative offsets"),
        ({"attributes": 7}, "no compression codec 7"),
    ],
)
def test_what_is_wrong_with_a_batch(changes: dict[str, int], problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        decode_batch(with_header(encode_batch(SAMPLE), **changes))


def test_an_unknown_codec_is_told_apart() -> None:
    batch = with_header(encode_batch(SAMPLE), attributes=5)
    for read in (decode_batch, lambda batch: check_records(batch, require_keys=False)):
        with pytest.raises(UnknownCodecError):
            read(batch)
    with pytest.raises(UnknownCodecError):
        recompress(batch, 0, GZIP)


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_another_magic_is_refused(magic: int) -> None:
    batch = bytearray(encode_batch(SAMPLE))
    struct.pack_into(">b", batch, 16, magic)
    with pytest.raises(DecodeError, match="magic"):
        decode_batch(batch)


def test_cut_short_at_every_byte() -> None:
    batch = encode_batch(SAMPLE)
    for size in range(len(batch)):
        with pytest.raises(DecodeError):
            decode_batch(batch[:size])


def test_every_flipped_bit_behind_the_stamps_is_noticed() -> None:
    batch = encode_batch(SAMPLE)
    for place in range(16, len(batch)):
        for bit in range(8):
            damaged = bytearray(batch)
            damaged[place] ^= 1 << bit
            with pytest.raises(DecodeError):
                decode_batch(damaged)


@codecs
@settings(max_examples=40)
@given(
    records=record_lists(),
    changes=st.lists(st.tuples(st.integers(21, 400), st.integers(0, 255)), max_size=4),
)
def test_changes_under_a_new_crc_decode_or_are_refused(
    codec: int, records: list[Record], changes: list[tuple[int, int]]
) -> None:
    batch = bytearray(encode_batch(records, codec=codec))
    for place, byte in changes:
        batch[min(place, len(batch) - 1)] = byte
    changed = assemble(parse_header(batch), batch[HEADER_BYTES:])
    with contextlib.suppress(DecodeError):
        assert len(decode_batch(changed, limit=LIMIT)) == parse_header(changed).count
    with contextlib.suppress(DecodeError):
        check_records(changed, require_keys=True, limit=LIMIT)
    with contextlib.suppress(DecodeError):
        again = recompress(changed, 0, NONE, limit=LIMIT)
        assert parse_header(again).count == parse_header(changed).count


@given(data=st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode_batch(data, limit=LIMIT)


@codecs
def test_decompression_is_bounded(codec: int) -> None:
    batch = encode_batch([(0, b"k", bytes(LIMIT), [])], codec=codec)
    if codec == NONE:
        assert len(decode_batch(batch, limit=LIMIT)) == 1, "there is nothing to expand"
        return
    for read in (
        lambda: decode_batch(batch, limit=LIMIT),
        lambda: check_records(batch, require_keys=True, limit=LIMIT),
        lambda: recompress(batch, 0, NONE, limit=LIMIT),
    ):
        with pytest.raises(DecodeError, match="expands past"):
            read()


@codecs
def test_each_record_without_a_key_is_named(codec: int) -> None:
    batch = b"##" + encode_batch(SAMPLE, codec=codec)
    check_records(batch, 2, require_keys=False)
    with pytest.raises(RecordError) as refused:
        check_records(batch, 2, require_keys=True)
    assert refused.value.indexes == (1, 3)
    assert refused.value.index == 1


def test_an_unreadable_record_is_named() -> None:
    batch = bytearray(encode_batch([(0, b"k", b"v", []), (0, b"k", b"v", [])]))
    batch[-1] = 9
    with pytest.raises(RecordError, match="headers") as refused:
        check_records(assemble(parse_header(batch), batch[HEADER_BYTES:]), require_keys=False)
    assert refused.value.indexes == (1,)


@pytest.mark.parametrize("before", ALL_CODECS, ids=CODEC_NAMES.get)
@pytest.mark.parametrize("after", ALL_CODECS, ids=CODEC_NAMES.get)
def test_recompression_changes_the_codec_and_nothing_else(before: int, after: int) -> None:
    batch = encode_batch(
        SAMPLE, base_offset=45, codec=before, leader_epoch=6, producer_id=8, producer_epoch=0
    )
    stamped = bytearray(batch)
    batch_header.stamp_append_time(stamped, 0, parse_header(stamped), 77)
    again = recompress(b"#" + stamped, 1, after)
    old, new = parse_header(stamped), parse_header(again)
    assert new.codec == after
    assert new == old._replace(
        length=new.length, crc=new.crc, attributes=old.attributes & ~7 | after
    )
    assert decode_batch(again) == decode_batch(stamped)


@codecs
def test_a_rewritten_batch_keeps_its_place(codec: int) -> None:
    batch = encode_batch(
        SAMPLE, base_offset=48, codec=codec, producer_id=8, producer_epoch=1, base_sequence=20
    )
    header = parse_header(batch)
    fewer = rewrite_batch(header, SAMPLE[1:2])
    left = parse_header(fewer)
    assert decode_batch(fewer) == SAMPLE[1:2]
    assert (left.base_offset, left.last_offset, left.last_sequence) == (48, 54, 26)
    assert (left.base_timestamp, left.max_timestamp, left.codec) == (1_000, 999, codec)
    none_left = rewrite_batch(header, [])
    assert decode_batch(none_left) == []
    assert parse_header(none_left)[6:12] == header[6:12]
    assert decode_batch(rewrite_batch(header, SAMPLE, codec=GZIP)) == SAMPLE


def test_a_rewritten_batch_keeps_its_append_time() -> None:
    batch = bytearray(encode_batch(SAMPLE))
    batch_header.stamp_append_time(batch, 0, parse_header(batch), 5_000)
    records = decode_batch(batch)
    fewer = rewrite_batch(parse_header(batch), records[2:])
    assert parse_header(fewer).attributes & LOG_APPEND_TIME
    assert decode_batch(fewer) == records[2:]
