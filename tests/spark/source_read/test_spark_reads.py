"""Spark finds `format("barnabas")` by itself, and reads what was written: batch and stream."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType
from tests.spark.source_read.reading_world import Row, consumed, new_topic, quiet

from barnabas.testing import Broker

PARTITIONS = 3


def write(servers: str, topic: str, numbers: range) -> None:
    producer = Producer(quiet(servers, compression_type="zstd"))
    for n in numbers:
        producer.produce(
            topic,
            key=None if n % 5 == 0 else b"key %d" % n,
            value=b"value %d" % n,
            partition=n % PARTITIONS,
            timestamp=1_700_000_000_000 + n,
            headers=[("number", b"%d" % n)] if n % 2 else [],
        )
    assert producer.flush(30) == 0


def collected(frame: DataFrame) -> list[Row]:
    rows = []
    for row in frame.selectExpr("*", "unix_millis(timestamp) AS ms").collect():
        headers = tuple((each.key, _bytes(each.value)) for each in row.headers or ())
        rows.append(
            Row(
                row.topic,
                row.partition,
                row.offset,
                _bytes(row.key),
                _bytes(row.value),
                row.ms,
                row.timestampType,
                headers,
            )
        )
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))


def _bytes(value: bytearray | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


@pytest.fixture
def servers(shared_broker: Broker) -> str:
    return shared_broker.bootstrap_servers


def test_a_batch_reads_what_was_written(spark: SparkSession, servers: str) -> None:
    topic = new_topic(servers, PARTITIONS)
    write(servers, topic, range(3_000))
    frame = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )
    assert collected(frame) == consumed(servers, topic, range(PARTITIONS))
    narrow = (
        spark.read.format("barnabas")
        .options(**{"kafka.bootstrap.servers": servers, "subscribe": topic, "columns": "value"})
        .load()
    )
    assert narrow.columns == ["value"]
    assert {bytes(row.value) for row in narrow.limit(5).collect()} <= {
        b"value %d" % n for n in range(3_000)
    }
    assert narrow.count() == 3_000


def test_a_stream_reads_what_was_written_and_what_comes(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = new_topic(servers, PARTITIONS)
    write(servers, topic, range(1_000))
    frame = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", "600")
        .load()
    )
    output, checkpoint = str(tmp_path / "output"), str(tmp_path / "checkpoint")

    def run() -> None:
        query = (
            frame.writeStream.format("parquet")
            .option("path", output)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(100)

    run()
    write(servers, topic, range(1_000, 1_500))
    run()
    assert collected(spark.read.parquet(output)) == consumed(servers, topic, range(PARTITIONS))


def test_what_can_not_be_is_one_sentence(spark: SparkSession, servers: str) -> None:
    topic = new_topic(servers)
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    schema = StructType().add("value", StringType())
    tries: list[tuple[Callable[[], object], str]] = [
        (
            lambda: spark.read.format("barnabas").options(**options).schema(schema).load().count(),
            "The columns of a topic are fixed",
        ),
        (
            lambda: (
                spark.range(1)
                .selectExpr("'x' AS value")
                .write.format("barnabas")
                .options(**{"kafka.bootstrap.servers": servers, "topic": topic})
                .mode("overwrite")
                .save()
            ),
            "A topic can not be overwritten",
        ),
    ]
    for attempt, sentence in tries:
        with pytest.raises(Exception, match=sentence):
            attempt()
