"""Where a topic's settings ask for it, records are looked into and batches compressed anew."""

import zlib

import pytest
from tests.log.conftest import NOW_MS

from barnabas.config.topic_config import TopicConfig
from barnabas.log.validation import (
    RefusedRecordsError,
    check_batch,
    needs_records,
    with_records,
)
from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import HEADER_BYTES, assemble, parse_header, problem_of
from barnabas.wire.records.compression import CODEC_NAMES, CODECS_BY_NAME, GZIP
from barnabas.wire.records.record import Record, decode_batch, encode_batch

COMPACTED = TopicConfig(cleanup_policy=frozenset({"compact"}))
TARGETS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]


def keyed(*keys: bytes | None, timestamp: int = NOW_MS, codec: int = 0) -> bytes:
    return encode_batch([(timestamp, key, b"value" * 20, []) for key in keys], codec=codec)


def looked_into(data: bytes, config: TopicConfig, now_ms: int = NOW_MS) -> bytes:
    header = check_batch(memoryview(bytearray(data)), config, now_ms)
    assert needs_records(header, config)
    return with_records(data, header, config, now_ms)


def refusal(data: bytes, config: TopicConfig) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        looked_into(data, config)
    return refused.value


def test_with_default_settings_the_header_is_enough() -> None:
    for codec in CODEC_NAMES:
        header = parse_header(keyed(b"k", None, codec=codec))
        assert not needs_records(header, TopicConfig())


def test_a_compacted_topic_takes_batches_whose_records_all_have_keys() -> None:
    data = keyed(b"a", b"", b"c")
    assert looked_into(data, COMPACTED) == data


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_compacted_topic_names_each_record_without_key(codec: int) -> None:
    error = refusal(keyed(b"a", None, b"c", None, codec=codec), COMPACTED)
    assert isinstance(error, RefusedRecordsError)
    assert error.code is ErrorCode.invalid_record
    assert [index for index, _ in error.refused] == [1, 3]
    assert all("key" in message for _, message in error.refused)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", CODEC_NAMES)
def test_a_batch_is_stored_in_the_topics_own_compression(source: int, target: str) -> None:
    config = TopicConfig(compression_type=target, cleanup_policy=frozenset({"compact"}))
    data = keyed(b"a", b"b", b"c", codec=source)
    stored = looked_into(data, config)
    header = parse_header(stored)
    assert header.codec == CODECS_BY_NAME.get(target, 0)
    assert problem_of(stored, 0, header) is None
    assert decode_batch(stored) == decode_batch(data)


@pytest.mark.parametrize(
    ("target", "key", "level"),
    [("gzip", "gzip", 1), ("gzip", "gzip", 9), ("gzip", "gzip", -1), ("lz4", "lz4", 17),
     ("zstd", "zstd", -5), ("zstd", "zstd", 22)],
)  # fmt: skip
def test_every_level_that_can_be_configured_can_be_used(target: str, key: str, level: int) -> None:
    settings = {"compression.type": target, f"compression.{key}.level": str(level)}
    data = keyed(b"a", b"b")
    assert decode_batch(looked_into(data, TopicConfig.from_maps(settings))) == decode_batch(data)


def test_the_producers_own_compression_is_left_alone_where_it_is_the_topics() -> None:
    for name in TARGETS:
        header = parse_header(keyed(b"a", codec=CODECS_BY_NAME.get(name, 0)))
        assert not needs_records(header, TopicConfig(compression_type=name))


def test_a_batch_that_grows_is_held_to_the_limits_again() -> None:
    data = keyed(*[b"k"] * 200, codec=GZIP)
    grown = TopicConfig(compression_type="uncompressed", max_message_bytes=2 * len(data))
    assert refusal(data, grown).code is ErrorCode.message_too_large
    split = TopicConfig(compression_type="uncompressed", segment_bytes=2 * len(data))
    assert refusal(data, split).code is ErrorCode.record_list_too_large


def compressed(body: bytes) -> bytes:
    """A gzip batch of three records whose body is whatever it is."""
    header = parse_header(keyed(b"a", b"b", b"c"))._replace(attributes=GZIP)
    return assemble(header, body)


@pytest.mark.parametrize("body", [b"not gzip at all", b"", zlib.compress(b"zlib is not gzip")])
def test_records_that_can_not_be_read_are_refused(body: bytes) -> None:
    assert refusal(compressed(body), COMPACTED).code is ErrorCode.invalid_record


def test_a_bomb_is_refused_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DECOMPRESSED_BYTES_MAX", 100_000)
    inflated = encode_batch([(NOW_MS, b"k", bytes(200_000), [])], codec=GZIP)
    assert len(inflated) < 1_000
    assert refusal(inflated, COMPACTED).code is ErrorCode.invalid_record


def test_a_record_that_lies_about_its_size_is_named() -> None:
    data = keyed(b"a", b"b", b"c")
    body = bytearray(data[HEADER_BYTES:])
    size = len(body) // 3
    body[size] = 0x7E  # the second record's length
    error = refusal(assemble(parse_header(data), bytes(body)), COMPACTED)
    assert isinstance(error, RefusedRecordsError)
    assert [index for index, _ in error.refused] == [1]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_no_record_may_be_older_than_message_timestamp_before_max_ms(codec: int) -> None:
    config = TopicConfig(message_timestamp_before_max_ms=1_000)
    stamps = [NOW_MS, NOW_MS - 1_000, NOW_MS]
    data = encode_batch([Record(n, at, b"k", b"v", []) for n, at in enumerate(stamps)], codec=codec)
    assert looked_into(data, config) == data
    stamps[1] -= 1
    late = encode_batch([Record(n, at, b"k", b"v", []) for n, at in enumerate(stamps)], codec=codec)
    assert refusal(late, config).code is ErrorCode.invalid_timestamp


def test_with_log_append_time_records_may_be_of_any_age() -> None:
    config = TopicConfig(
        message_timestamp_before_max_ms=1_000, message_timestamp_type="LogAppendTime"
    )
    data = keyed(b"a", timestamp=5)
    assert looked_into(data, config) == data
