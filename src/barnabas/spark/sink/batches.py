"""Record batches made of columns, and made smaller where a broker finds them too large."""

from typing import Any, Final, NamedTuple

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.rows import Columns
from barnabas.wire.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER,
    TRANSACTIONAL,
    BatchHeader,
    assemble,
    parse_header,
)
from barnabas.wire.records.codec import decode_records, encode_records
from barnabas.wire.records.columns import encode_columns
from barnabas.wire.records.compression import compress, decompress

SEQUENCES: Final = 2**31
"""Where sequence numbers begin again at 0."""
_EXPANDED_MAX: Final = 2**31 - 1
_NO_LEADER_EPOCH: Final = -1


class Section(NamedTuple):
    """The records of one batch, encoded but neither compressed nor numbered."""

    records: bytes | bytearray
    count: int  # type: ignore[assignment]  # hides tuple.count(), which nobody needs here
    base_timestamp: int
    max_timestamp: int


class Numbering(NamedTuple):
    """Who writes a batch, and where it stands among those of its partition."""

    producer_id: int = NO_PRODUCER
    epoch: int = -1
    transactional: bool = False


class Encoder:
    """Cuts the rows of one partition into sections that are no larger than a batch may be."""

    def __init__(self, options: SinkOptions, columns: Columns, now_ms: int, times: Any) -> None:
        self._options = options
        self._columns = columns
        self._now_ms = now_ms
        self._times = times

    def section(self, place: Place, order: Any, first: int, count: int, limit: int) -> Section:
        """As many of the rows as fit into a batch of `limit` bytes, but at least one."""
        columns = self._columns
        base = self._now_ms
        if self._times is not None:
            base = int(self._times[first if order is None else order[first]])
        records, taken, max_timestamp = encode_columns(
            columns.rows,
            columns.keys,
            columns.values,
            columns.headers,
            None if self._times is None else memoryview(self._times).cast("B"),
            None if order is None else memoryview(order).cast("B"),
            first,
            count,
            base,
            max(limit - HEADER_BYTES, 0),
        )
        size = HEADER_BYTES + len(records)
        if taken == 1 and size > self._options.record_bytes_max:
            raise SparkJobError(
                f"A record for {place} takes {size} bytes, more than the option "
                f"kafka.max.request.size={self._options.record_bytes_max} allows: raise it, and "
                "max.message.bytes of the topic too, or write smaller records."
            )
        return Section(records, taken, base, max_timestamp)


def finish(section: Section, numbering: Numbering, sequence: int, options: SinkOptions) -> bytes:
    """The batch of a section, as it is sent."""
    return _assemble(
        section, numbering, sequence, options.codec, compress_as(section.records, options)
    )


def compress_as(records: bytes | bytearray, options: SinkOptions) -> bytes | bytearray:
    """Compressed as the options want."""
    if not options.codec:
        return records
    return compress(options.codec, records, options.codec_level)


def _assemble(
    section: Section,
    numbering: Numbering,
    sequence: int,
    codec: int,
    compressed: bytes | bytearray,
) -> bytes:
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=_NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL if numbering.transactional else 0),
        last_offset_delta=section.count - 1,
        base_timestamp=section.base_timestamp,
        max_timestamp=section.max_timestamp,
        producer_id=numbering.producer_id,
        producer_epoch=numbering.epoch,
        base_sequence=sequence,
        count=section.count,
    )
    return assemble(header, compressed)


def halves(batch: bytes, level: int | None) -> list[bytes]:
    """The same records in two batches, with the same sequence numbers all in all."""
    header = parse_header(batch)
    codec = header.attributes & CODEC_MASK
    raw = decompress(codec, memoryview(batch)[HEADER_BYTES:], _EXPANDED_MAX)
    records = decode_records(raw, header.count, 0, header.base_timestamp, -1)
    numbering = Numbering(header.producer_id, header.producer_epoch, header.is_transactional)
    middle = len(records) // 2
    parts = []
    for start, part in ((0, records[:middle]), (middle, records[middle:])):
        base = part[0][1]
        encoded = encode_records(part, start, base)
        section = Section(encoded, len(part), base, max(record[1] for record in part))
        sequence = header.base_sequence
        if sequence >= 0:
            sequence = (sequence + start) % SEQUENCES
        parts.append(
            _assemble(section, numbering, sequence, codec, compress(codec, encoded, level))
        )
    return parts
