"""What Spark makes of the driver's side: batches, restarts, lag and filters."""

import json
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.source_driver.driver_world import WAIT_S, World

from barnabas.spark.places import Place

# Spark's own start is part of whichever test comes first.
pytestmark = pytest.mark.timeout(300)


def stream(spark: SparkSession, world: World, out: Path, **options: object) -> DataStreamWriter:
    reading = spark.readStream.format("barnabas").options(**world.options(**options))
    writing = reading.load().select("partition", "offset").writeStream.format("parquet")
    return writing.option("checkpointLocation", str(out / "checkpoint")).option(
        "path", str(out / "rows")
    )


def rows(spark: SparkSession, out: Path) -> list[tuple[int, int]]:
    frame: DataFrame = spark.read.parquet(str(out / "rows"))
    return sorted((row.partition, row.offset) for row in frame.collect())


def committed(world: World, group: str) -> dict[Place, int]:
    found = world.cluster.committed_offsets(group, None, stable=True)
    return {place: offset for place, (offset, _) in found.items()}


def test_available_now_again_and_again(spark: SparkSession, world: World, tmp_path: Path) -> None:
    topic = world.topic(2)
    world.write(topic, 30)
    world.write(topic, 10, partition=1)
    options = {"subscribe": topic, "kafka_group_id": topic, "maxOffsetsPerTrigger": 20}
    zero, one = Place(topic, 0), Place(topic, 1)

    writing = stream(spark, world, tmp_path, startingOffsets="earliest", **options)
    query = writing.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    assert [each["numInputRows"] for each in batches] == [20, 20]
    (source,) = batches[0]["sources"]
    assert json.loads(str(source["latestOffset"]).replace("'", '"')) == {topic: {"0": 30, "1": 10}}
    # The last batch included, though Spark never says that it is complete.
    assert committed(world, topic) == {zero: 30, one: 10}

    # A crash after the last batch was journaled and before it was complete: it is read again.
    for commit in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        commit.unlink()
    world.write(topic, 5, partition=1)
    query = stream(spark, world, tmp_path, **options).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    assert rows(spark, tmp_path) == [
        *((0, offset) for offset in range(30)),
        *((1, offset) for offset in range(15)),
    ]
    assert committed(world, topic) == {zero: 30, one: 15}


def test_a_running_query_shows_its_lag(spark: SparkSession, world: World, tmp_path: Path) -> None:
    topic = world.topic()
    world.write(topic, 5)
    query = stream(spark, world, tmp_path, subscribe=topic, kafka_group_id=topic).start()
    try:
        query.processAllAvailable()
        world.write(topic, 3)
        query.processAllAvailable()
        deadline = time.monotonic() + WAIT_S
        while committed(world, topic) != {Place(topic, 0): 8}:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        query.stop()
    # It began at the end the topic had, and has seen all that came after.
    assert rows(spark, tmp_path) == [(0, offset) for offset in range(5, 8)]


def test_a_checkpoint_of_another_query_is_told(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    one, two = world.topic(), world.topic()
    world.write(one, 1)
    writing = stream(spark, world, tmp_path, subscribe=one, startingOffsets="earliest")
    assert writing.trigger(availableNow=True).start().awaitTermination(WAIT_S)
    query = stream(spark, world, tmp_path, subscribe=two).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="seems to belong to another query"):
        query.awaitTermination(WAIT_S)


def test_filters_are_pushed_down(spark: SparkSession, world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 50, time_ms=1_704_067_200_000)
    world.write(topic, 50, partition=1, time_ms=1_704_067_200_000)
    options = world.options(subscribe=topic, minPartitions=8)
    plain = spark.read.format("barnabas").options(**options).load()
    pushed = spark.read.format("barnabas").options(**options, pushdown="true").load()
    where = (
        f"topic = '{topic}' and partition = 1 and offset < 40 "
        "and timestamp >= timestamp'2024-01-01 00:00:00.030 UTC'"
    )
    wanted = sorted(plain.where(where).collect())
    assert [row.offset for row in wanted] == list(range(30, 40))
    assert sorted(pushed.where(where).collect()) == wanted


def test_a_topic_that_does_not_exist_is_told(spark: SparkSession, world: World) -> None:
    frame = spark.read.format("barnabas").options(**world.options(subscribe="no-such-topic"))
    with pytest.raises(PySparkException, match="no-such-topic at"):
        frame.load().collect()
