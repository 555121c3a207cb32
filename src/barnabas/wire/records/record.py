"""The records inside a batch: for compaction, validation, tools and pipelines.

The key of a header is text. Bytes that are not UTF-8 become lone surrogates (Python's
"surrogateescape") instead of replacement characters, so that reading a batch and writing it again
gives the same bytes whatever a client put there.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from barnabas.model.errors import DecodeError
from barnabas.model.limits import DECOMPRESSED_BYTES_MAX
from barnabas.wire.records import codec as record_codec
from barnabas.wire.records.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    assemble,
    parse_header,
    problem_of,
)
from barnabas.wire.records.compression import NONE, compress, decompress
from barnabas.wire.records.errors import RecordError

Header: TypeAlias = tuple[str, bytes | None]
NewRecord: TypeAlias = tuple[int, bytes | None, bytes | None, list[Header]]
"""Timestamp, key, value and headers of a record that has no offset yet."""


class Record(NamedTuple):
    """One record; a null key or value is None, which is not the same as empty."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


_as_record = partial(tuple.__new__, Record)
"""What `Record._make` does, at half the price: that counts, and the codec always gives five."""


def decode_batch(
    buffer: Buffer, position: int = 0, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """The records of the batch at `position`; DecodeError unless it is sound in every byte."""
    header = _sound_header(buffer, position)
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else NO_TIMESTAMP
    fields = record_codec.decode_records(
        _records_of(buffer, position, header, limit),
        header.count,
        header.base_offset,
        header.base_timestamp,
        append_time,
    )
    if fields and fields[-1][0] > header.last_offset:
        raise DecodeError("a record lies behind the last offset of its batch")
    return list(map(_as_record, fields))


def check_records(
    buffer: Buffer,
    position: int = 0,
    *,
    require_keys: bool,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> None:
    """Read every record of a batch without keeping any.

    RecordError names the first record that can not be read or, with `require_keys` (a compacted
    topic), all that lack a key. Any other DecodeError is about the batch as a whole.
    """
    header = _sound_header(buffer, position)
    keyless = record_codec.keyless_records(
        _records_of(buffer, position, header, limit), header.count, header.last_offset_delta
    )
    if require_keys and keyless:
        raise RecordError("a compacted topic takes no record without a key", tuple(keyless))


def encode_batch(
    records: Sequence[Record | NewRecord],
    *,
    base_offset: int | None = None,
    codec: int = NONE,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    level: int | None = None,
) -> bytes:
    """A batch of `records`, which either have offsets or are numbered from `base_offset` on.

    Without `base_offset` the batch begins at its first record, or at 0. Offsets must ascend.
    """
    placed = _placed(records, base_offset or 0)
    base = base_offset if base_offset is not None else placed[0].offset if placed else 0
    header = BatchHeader(
        base_offset=base,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=(TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0),
        last_offset_delta=placed[-1].offset - base if placed else 0,
        base_timestamp=placed[0].timestamp if placed else NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=0,
    )
    return rewrite_batch(header, placed, codec=codec, level=level)


def rewrite_batch(
    header: BatchHeader,
    records: Sequence[Record],
    *,
    codec: int | None = None,
    level: int | None = None,
) -> bytes:
    """The batch of `header` with only these of its records left (perhaps none).

    What the header says of offsets, producer and times stays, so that a reader sees no gap and
    a producer's state survives; the codec stays too, unless another is given.
    """
    latest = max((record.timestamp for record in records), default=header.max_timestamp)
    body = record_codec.encode_records(records, header.base_offset, header.base_timestamp)
    if header.attributes & LOG_APPEND_TIME:
        latest = header.max_timestamp
    kept = header._replace(count=len(records), max_timestamp=latest)
    return _pack(kept, body, header.codec if codec is None else codec, level)


def recompress(
    buffer: Buffer,
    position: int,
    codec: int,
    level: int | None = None,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """The same batch with its records under another codec; they are not looked at."""
    header = _sound_header(buffer, position)
    return _pack(header, _records_of(buffer, position, header, limit), codec, level)


def _sound_header(buffer: Buffer, position: int) -> BatchHeader:
    header = parse_header(buffer, position)
    problem = problem_of(buffer, position, header)
    if problem is not None:
        raise DecodeError(f"the record batch is damaged: {problem}")
    return header


def _records_of(buffer: Buffer, position: int, header: BatchHeader, limit: int) -> Buffer:
    """The records of a sound batch, decompressed."""
    data = memoryview(buffer)[position + HEADER_BYTES : position + header.size]
    # A batch that compaction has emptied keeps its attributes, but there is nothing to expand.
    if header.codec == NONE or not data:
        return data
    return decompress(header.codec, data, limit)


def _pack(header: BatchHeader, body: Buffer, codec: int, level: int | None) -> bytes:
    used = codec if body else NONE
    attributes = header.attributes & ~CODEC_MASK | used
    return assemble(header._replace(attributes=attributes), compress(used, body, level))


def _placed(records: Sequence[Record | NewRecord], first: int) -> list[Record]:
    placed = []
    for offset, record in enumerate(records, first):
        if isinstance(record, Record):
            placed.append(record)
        else:
            timestamp, key, value, headers = record
            placed.append(Record(offset, timestamp, key, value, headers))
    return placed
