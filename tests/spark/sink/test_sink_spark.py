"""`format("barnabas")` as a sink of Spark: batches, streams, sentences where rows do not fit."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.spark.sink.written import new_topic, read_all

from barnabas.testing import Broker


def save(rows: DataFrame, broker: Broker, mode: str = "append", **options: str) -> None:
    writer = rows.write.format("barnabas").mode(mode).options(**options)
    writer.option("kafka.bootstrap.servers", broker.bootstrap_servers).save()


def test_a_batch_with_keys_and_headers(spark: SparkSession, shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, 3)
    rows = spark.range(0, 5000, numPartitions=2).select(
        f.expr("cast(id as string)").alias("value"),
        f.expr("case when id % 10 > 0 then cast(concat('k', id % 7) as binary) end").alias("key"),
        f.expr("array(named_struct('key', 'n', 'value', cast('h' as binary)))").alias("headers"),
        f.col("id").alias("ignored"),
    )
    save(rows, shared_broker, topic=topic, includeHeaders="true")
    found = read_all(shared_broker, topic)
    assert sorted(int(read.value or b"") for read in found) == list(range(5000))
    assert all(read.headers == [("n", b"h")] for read in found)
    for read in found:
        number = int(read.value or b"")
        assert read.key == (b"k%d" % (number % 7) if number % 10 else None)
    by_key = {read.key: read.partition for read in found if read.key is not None}
    assert all(read.key is None or by_key[read.key] == read.partition for read in found)


def test_a_topic_and_a_time_in_each_row(spark: SparkSession, shared_broker: Broker) -> None:
    topics = [new_topic(shared_broker), new_topic(shared_broker, 2)]
    rows = spark.range(0, 100, numPartitions=2).select(
        f.expr(f"if(id % 2 = 0, '{topics[0]}', '{topics[1]}')").alias("topic"),
        f.expr("cast(id as string)").alias("value"),
        f.expr("current_timestamp() - interval 1 hour").alias("timestamp"),
        f.expr("cast(if(id % 2 = 0, 0, 1) as int)").alias("partition"),
    )
    save(rows, shared_broker, includeTimestamp="true", **{"kafka.compression.type": "zstd"})
    found = [read_all(shared_broker, topic) for topic in topics]
    assert [Counter(read.partition for read in each) for each in found] == [{0: 50}, {1: 50}]
    assert len({read.timestamp for each in found for read in each}) == 1


def test_a_stream(spark: SparkSession, shared_broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(shared_broker, 2)
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 300)
        .option("numPartitions", 2)
        .option("startTimestamp", 0)
        .load()
        .select(f.expr("cast(value as string)").alias("value"))
    )

    def run() -> None:
        query = (
            rows.writeStream.format("barnabas")
            .option("kafka.bootstrap.servers", shared_broker.bootstrap_servers)
            .option("topic", topic)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)
        assert query.exception() is None

    run()
    run()
    assert sorted(int(read.value or b"") for read in read_all(shared_broker, topic)) == list(
        range(600)
    )


@pytest.mark.parametrize(
    ("columns", "mode", "options", "sentence"),
    [
        ("id AS value", "append", {"topic": "t"}, "column value is of type bigint: cast it to"),
        ("'v' AS v", "append", {"topic": "t"}, "A row needs a column value"),
        ("'v' AS value", "append", {}, "No topic to write to: set the option topic"),
        ("'v' AS value", "append", {"topc": "t"}, "did you mean topic?"),
        ("'v' AS value", "overwrite", {"topic": "t"}, "A topic can not be overwritten"),
        ("'v' AS value", "append", {"topic": "no-such-topic"}, "There is no topic no-such-topic"),
    ],
)
def test_sentences(
    spark: SparkSession,
    shared_broker: Broker,
    columns: str,
    mode: str,
    options: dict[str, str],
    sentence: str,
) -> None:
    rows = spark.range(1).selectExpr(columns)
    with pytest.raises(PySparkException) as error:
        save(rows, shared_broker, mode, **options)
    assert sentence in str(error.value)
