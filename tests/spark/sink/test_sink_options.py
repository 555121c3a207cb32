"""What a write may be told, and the sentences for what it may not."""

import pickle

import pytest

from barnabas.spark.errors import SparkJobError
from barnabas.spark.sink.options import SinkOptions, parse

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}


def parsed(**more: str) -> SinkOptions:
    given = {
        name.replace("_", ".") if name.startswith("kafka_") else name: value
        for name, value in more.items()
    }
    return parse(SERVERS | given, streaming=False)


def test_what_nobody_sets() -> None:
    options = parsed()
    assert (options.topic, options.delivery, options.partitioner) == (
        None,
        "at-least-once",
        "murmur2",
    )
    assert (options.acks, options.idempotent, options.codec) == (-1, True, 0)
    assert (options.batch_bytes, options.record_bytes_max, options.in_flight_max) == (
        1_000_000,
        1_048_576,
        5,
    )
    assert (options.sink_id, options.source_group) == (None, None)
    assert (options.batch_id, options.checkpoint) == (None, None)


def test_what_somebody_sets() -> None:
    options = parsed(
        topic=" orders ",
        delivery="Exactly-Once",
        partitioner="crc32",
        includeTimestamp="true",
        sinkId="s",
        sourceGroup="g",
        batchId="7",
        checkpointLocation="/c",
        kafka_compression_type="zstd",
        kafka_compression_zstd_level="-5",
        kafka_batch_size="5000000",
        kafka_max_request_size="3000000",
        kafka_transaction_timeout_ms="1000",
        kafka_delivery_timeout_ms="2500",
        kafka_client_id="me",
    )
    assert options == SinkOptions(
        connection=options.connection,
        topic="orders",
        delivery="exactly-once",
        partitioner="crc32",
        include_timestamp=True,
        codec=4,
        codec_level=-5,
        batch_bytes=3_000_000,
        record_bytes_max=3_000_000,
        transaction_timeout_ms=1000,
        sink_id="s",
        source_group="g",
        batch_id=7,
        checkpoint="/c",
    )
    assert (options.connection.client_id, options.connection.patience_s) == ("me", 2.5)
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options) == hash(pickle.loads(pickle.dumps(options)))


@pytest.mark.parametrize(
    ("given", "acks", "idempotent"),
    [
        ({"kafka_acks": "all"}, -1, True),
        ({"kafka_acks": "-1"}, -1, True),
        ({"kafka_acks": "1"}, 1, False),
        ({"kafka_acks": "0"}, 0, False),
        ({"kafka_enable_idempotence": "false"}, -1, False),
    ],
)
def test_idempotence_follows_acks(given: dict[str, str], acks: int, idempotent: bool) -> None:
    options = parsed(**given)
    assert (options.acks, options.idempotent) == (acks, idempotent)


@pytest.mark.parametrize(
    ("codec", "number"), [("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
def test_codecs_have_kafkas_names(codec: str, number: int) -> None:
    options = parsed(kafka_compression_type=codec, kafka_compression_gzip_level="-1")
    assert (options.codec, options.codec_level) == (number, None)


def test_a_java_producers_tuning_is_taken_and_changes_nothing() -> None:
    tuned = parsed(
        kafka_linger_ms="5", kafka_buffer_memory="1", kafka_retries="3", kafka_some_reporter="x"
    )
    assert tuned == parsed(includeHeaders="false", path="anything", startingOffsets="earliest")


REFUSED = [
    ({"kafka_key_serializer": "x"}, "kafka.key.serializer is not supported, because keys are"),
    ({"kafka_value_serializer": "x"}, "serialize them in the DataFrame"),
    ({"kafka_partitioner_class": "x"}, "use the option partitioner"),
    ({"kafka_interceptor_classes": "x"}, "kafka.interceptor.classes is not supported"),
    ({"kafka_transactional_id": "x"}, "use delivery=exactly-once with the option sinkId"),
    ({"kafka_partitioner_ignore_keys": "true"}, "give a partition column"),
    ({"kafka_compresion_type": "lz4"}, "did you mean kafka.compression.type?"),
    ({"kafka_value_serialiser": "x"}, "did you mean kafka.value.serializer?"),
    ({"topics": "x"}, "There is no option topics: did you mean topic?"),
    ({"includetimestamps": "true"}, "did you mean includeTimestamp?"),
    ({"topic": "  "}, "The option topic is empty"),
    ({"sinkId": ""}, "The option sinkId is empty"),
    (
        {"delivery": "at-most-once"},
        "must be one of at-least-once, exactly-once, not 'at-most-once'",
    ),
    ({"partitioner": "random"}, "The option partitioner must be one of murmur2, crc32"),
    ({"includeTimestamp": "yes"}, "The option includeTimestamp must be one of true, false"),
    ({"includeHeaders": "yes"}, "The option includeHeaders must be one of true, false"),
    ({"kafka_acks": "2"}, "The option kafka.acks must be one of all, -1, 1, 0, not '2'"),
    ({"kafka_compression_type": "br"}, "must be one of none, gzip, snappy, lz4, zstd, not 'br'"),
    (
        {"kafka_compression_type": "gzip", "kafka_compression_gzip_level": "10"},
        "kafka.compression.gzip.level must be a whole number from 1 to 9, not '10'",
    ),
    ({"kafka_batch_size": "1e6"}, "kafka.batch.size must be a whole number from 0 to"),
    ({"kafka_max_request_size": "0"}, "kafka.max.request.size must be a whole number from 1 to"),
    (
        {"kafka_max_in_flight_requests_per_connection": "6"},
        "kafka.max.in.flight.requests.per.connection must be a whole number from 1 to 5, not '6'",
    ),
    ({"batchId": "-1"}, "The option batchId must be a whole number from 0"),
    ({"delivery": "exactly-once", "kafka_acks": "1"}, "exactly-once needs kafka.acks=all"),
    (
        {"delivery": "exactly-once", "kafka_enable_idempotence": "false"},
        "exactly-once needs kafka.acks=all and kafka.enable.idempotence=true",
    ),
    (
        {"kafka_acks": "1", "kafka_enable_idempotence": "true"},
        "kafka.enable.idempotence=true needs kafka.acks=all",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_a_sentence_for_what_can_not_be(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(SparkJobError) as error:
        parsed(**given)
    assert sentence in str(error.value)
    assert str(error.value).endswith((".", "?"))


def test_a_stream_has_its_batch_ids_from_spark() -> None:
    with pytest.raises(SparkJobError, match="a streaming write has its batch ids from Spark"):
        parse(SERVERS | {"batchId": "1"}, streaming=True)


def test_servers_must_be_named() -> None:
    with pytest.raises(SparkJobError, match=r"kafka\.bootstrap\.servers"):
        parse({"topic": "t"}, streaming=False)
