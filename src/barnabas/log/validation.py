"""What a batch from a client must be before it is stored. Headers only, where that is enough.

Records are looked into only where a topic's settings ask for it: keys on a compacted topic, a
lower bound for timestamps, another compression than the producer's.
"""

from barnabas.config.topic_config import TopicConfig
from barnabas.model import limits
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.wire.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER,
    BatchHeader,
    crc_of,
    parse_header,
)
from barnabas.wire.records.compression import CODEC_NAMES, CODECS_BY_NAME
from barnabas.wire.records.errors import RecordError
from barnabas.wire.records.record import check_records, decode_batch, recompress

_NO_BOUND_MS = 2**63 - 1
_LZ4_OR_LESS = 4
"""Attributes below it: no flag is set, and the codec exists (zstd asks for a closer look)."""


class RefusedRecordsError(KafkaError):
    """Some records of a batch are refused, so the whole batch is; each is named."""

    def __init__(self, refused: list[tuple[int, str]]) -> None:
        super().__init__(ErrorCode.invalid_record, "One or more records have been rejected")
        self.refused = refused


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_record, message)


def check_batch(records: memoryview, config: TopicConfig, now_ms: int) -> BatchHeader:
    """The header of the one batch in `records`, or the KafkaError that the client must get."""
    if len(records) < HEADER_BYTES:
        raise _invalid("The record batch is cut short.")
    header = parse_header(records)
    size = header.length + LOG_OVERHEAD_BYTES
    if header.magic != MAGIC or size != len(records):
        _check_shape(header, records)
    if crc_of(records, 0, size) != header.crc:
        raise KafkaError(
            ErrorCode.corrupt_message, "The checksum of the record batch does not match."
        )
    _check_size(size, config)
    if not _is_usual(header):
        _check_fields(header)
    if header.max_timestamp > now_ms + config.message_timestamp_after_max_ms:
        _refuse_early(header, config)
    return header


def _is_usual(header: BatchHeader) -> bool:
    """Whether every field is as in almost all batches: then there is nothing to look into."""
    return (
        header.last_offset_delta + 1 == header.count > 0
        and header.base_offset == 0
        and header.attributes < _LZ4_OR_LESS
        and (header.base_sequence >= 0 or header.producer_id == NO_PRODUCER)
    )


def _check_size(size: int, config: TopicConfig) -> None:
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"The record batch has {size} bytes; max.message.bytes is {config.max_message_bytes}.",
        )
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.record_list_too_large,
            f"The record batch has {size} bytes; segment.bytes is {config.segment_bytes}.",
        )


def _check_shape(header: BatchHeader, records: memoryview) -> None:
    """One batch of magic 2. A few bytes behind it are left out, as Kafka leaves them out."""
    if header.magic in (0, 1):
        raise _invalid(f"Only record batches of magic {MAGIC} are taken, not {header.magic}.")
    if header.magic != MAGIC or header.size < HEADER_BYTES:
        raise KafkaError(
            ErrorCode.corrupt_message,
            f"A record batch of magic {header.magic} and length {header.length}.",
        )
    if header.size > len(records):
        raise _invalid("The record batch is cut short.")
    if len(records) - header.size >= HEADER_BYTES:
        raise _invalid("A Produce request holds exactly one record batch for each partition.")


def _check_fields(header: BatchHeader) -> None:
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        raise _invalid(
            f"A batch of {header.count} records can not have the last offset delta "
            f"{header.last_offset_delta}."
        )
    if header.base_offset != 0:
        raise _invalid(f"The base offset of a new batch must be 0, not {header.base_offset}.")
    if header.is_control:
        raise _invalid("Clients are not allowed to write control records.")
    if header.producer_id > NO_PRODUCER and header.base_sequence < 0:
        raise _invalid(f"Sequence {header.base_sequence} with producer id {header.producer_id}.")
    if header.codec not in CODEC_NAMES:
        raise KafkaError(
            ErrorCode.unsupported_compression_type, f"There is no compression {header.codec}."
        )


def _refuse_early(header: BatchHeader, config: TopicConfig) -> None:
    """Too far ahead, unless the broker's own time counts."""
    if config.message_timestamp_type == "CreateTime":
        raise KafkaError(
            ErrorCode.invalid_timestamp,
            f"Timestamp {header.max_timestamp} is further ahead than "
            "message.timestamp.after.max.ms allows.",
        )


def takes_batches_as_they_are(config: TopicConfig) -> bool:
    """Whether `needs_records` is false for every batch."""
    return (
        not config.compacts
        and config.message_timestamp_before_max_ms >= _NO_BOUND_MS
        and config.compression_type == "producer"
    )


def needs_records(header: BatchHeader, config: TopicConfig) -> bool:
    """Whether the header does not suffice for this topic (then the work is done off the loop)."""
    return (
        config.compacts
        or config.message_timestamp_before_max_ms < _NO_BOUND_MS
        or config.compression_type not in ("producer", _codec_name(header))
    )


def _codec_name(header: BatchHeader) -> str:
    """The codec as `compression.type` calls it."""
    return CODEC_NAMES[header.codec] if header.codec else "uncompressed"


def _level_of(codec_name: str, config: TopicConfig) -> int | None:
    gzip = config.compression_gzip_level
    levels = {
        "gzip": gzip if gzip > 0 else None,  # -1 stands for the codec's own default.
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return levels.get(codec_name)


def with_records(records: bytes, header: BatchHeader, config: TopicConfig, now_ms: int) -> bytes:
    """Look at every record; the batch to store, in the topic's own compression if it has one."""
    try:
        check_records(
            records,
            0,
            require_keys=config.compacts,
            limit=limits.DECOMPRESSED_BYTES_MAX,
        )
        if config.message_timestamp_before_max_ms < _NO_BOUND_MS:
            _check_oldest(records, config, now_ms)
        if config.compression_type in ("producer", _codec_name(header)):
            return records
        target = config.compression_type
        codec = CODECS_BY_NAME.get(target, 0)
        stored = recompress(records, 0, codec, _level_of(target, config))
        _check_size(len(stored), config)
        return stored
    except RecordError as error:
        refused = [(index, str(error)) for index in error.indexes]
        raise RefusedRecordsError(refused) from error
    except DecodeError as error:
        raise _invalid(f"The records can not be read: {error}") from error


def _check_oldest(records: bytes, config: TopicConfig, now_ms: int) -> None:
    if config.message_timestamp_type != "CreateTime":
        return
    oldest = min(record.timestamp for record in decode_batch(records))
    if oldest < now_ms - config.message_timestamp_before_max_ms:
        raise KafkaError(
            ErrorCode.invalid_timestamp,
            f"Timestamp {oldest} is older than message.timestamp.before.max.ms allows.",
        )
