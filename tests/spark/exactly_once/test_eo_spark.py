"""Exactly once with Spark itself: topic, shuffle, topic; restarts; what is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.compat.batches import Rec
from tests.spark.cluster.stage import make_topic, write
from tests.spark.exactly_once.driving import fetch, values

from barnabas.spark import to_topic
from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.deaths import job_error
from barnabas.spark.errors import SharedPartitionError, SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.sink.guard import describe_transaction
from barnabas.testing import Broker
from barnabas.wire.records.record import decode_batch

WAIT_S = 300
pytestmark = pytest.mark.timeout(2 * WAIT_S)


@pytest.fixture(scope="module")
def servers(shared_broker: Broker) -> str:
    return shared_broker.bootstrap_servers


@pytest.fixture(scope="module")
def cluster(servers: str) -> Iterator[Cluster]:
    cluster = cluster_of(Connection.from_options({"kafka.bootstrap.servers": servers}))
    yield cluster
    cluster.close()


def give(cluster: Cluster, places: list[Place], numbers: range) -> None:
    for number in numbers:
        record = Rec(value=str(number).encode(), key=f"key-{number}".encode())
        write(cluster, places[number % len(places)], [record])


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died between the sink's commit and Spark's own note of it."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name[0] != ".")
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    return last


def settle(cluster: Cluster, sink: str) -> None:
    while describe_transaction(cluster, f"barnabas-spark-{sink}").state.startswith("Prepare"):
        pass


def read_numbers(cluster: Cluster, places: list[Place]) -> list[int]:
    return sorted(int(value) for value in values(cluster, *places))


def test_topic_to_topic_with_a_shuffle_and_restarts(
    spark: SparkSession, cluster: Cluster, servers: str, tmp_path: Path
) -> None:
    sources, targets = make_topic(cluster, "eo-in", 2), make_topic(cluster, "eo-out", 3)

    def run() -> None:
        rows = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", "eo-in")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "8")
            .load()
            # Twice each, so that state is kept of what was seen; and the state must be complete.
            .select("key", f.explode(f.array("value", "value")).alias("value"))
            .dropDuplicates(["value"])
        )
        query = (
            to_topic(rows, "eo-out", servers=servers)
            .writeStream.format("barnabas")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", "eo-out")
            .option("delivery", "exactly-once")
            .option("sinkId", "eo")
            .option("sourceGroup", "eo-group")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(WAIT_S)
        settle(cluster, "eo")

    give(cluster, sources, range(8))
    run()
    assert read_numbers(cluster, targets) == list(range(8))
    committed = cluster.committed_offsets("eo-group", None, stable=True)
    assert committed == dict.fromkeys(sources, (4, ""))
    last = forget_last_commit(tmp_path)
    give(cluster, sources, range(8, 12))
    run()
    assert read_numbers(cluster, targets) == list(range(12))
    markers = cluster.committed_offsets("barnabas-spark-eo", None, stable=True)
    assert [offset for offset, _ in markers.values()] == [last + 1]
    committed = cluster.committed_offsets("eo-group", None, stable=True)
    assert committed == dict.fromkeys(sources, (6, ""))


def numbers(spark: SparkSession, count: int, tasks: int) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr(
        "cast(id as string) key", "cast(id as string) value", "id as other"
    )


def test_tasks_that_meet_fail_with_the_sentence_and_nothing_is_seen(
    spark: SparkSession, cluster: Cluster, servers: str
) -> None:
    places = make_topic(cluster, "eo-shared", 2)
    writer = (
        numbers(spark, 40, 2)
        .write.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "eo-shared")
        .option("delivery", "exactly-once")
        .option("sinkId", "eo-shared")
        .mode("append")
    )
    with pytest.raises(PySparkException) as problem:
        writer.save()
    assert isinstance(job_error(problem.value), SharedPartitionError)
    assert "barnabas.spark.to_topic" in str(problem.value)
    settle(cluster, "eo-shared")
    assert values(cluster, *places) == []
    # And nobody has to wait for a timeout before others are read.
    write(cluster, places[0], [Rec(value=b"1")])
    assert read_numbers(cluster, places) == [1]


def test_each_batch_of_foreach_is_written_once(
    spark: SparkSession, cluster: Cluster, servers: str, tmp_path: Path
) -> None:
    sources, targets = make_topic(cluster, "eo-each-in", 1), make_topic(cluster, "eo-each", 1)
    ran: list[int] = []

    def each(rows: DataFrame, batch_id: int) -> None:
        ran.append(batch_id)
        (
            to_topic(rows, "eo-each", servers=servers)
            .write.format("barnabas")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", "eo-each")
            .option("delivery", "exactly-once")
            .option("sinkId", "eo-each")
            .option("batchId", batch_id)
            .mode("append")
            .save()
        )

    def run() -> None:
        query = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", "eo-each-in")
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.foreachBatch(each)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(WAIT_S)
        settle(cluster, "eo-each")

    give(cluster, sources, range(5))
    run()
    forget_last_commit(tmp_path)
    run()
    assert ran == [0, 0]
    assert read_numbers(cluster, targets) == list(range(5))


def placed(cluster: Cluster, places: list[Place]) -> dict[str, Place]:
    return {
        bytes(record.value or b"").decode(): place
        for place in places
        for _, batch in fetch(cluster, place, committed=True)
        for record in decode_batch(batch)
    }


def test_keys_go_where_the_sink_would_send_them_and_others_are_spread(
    spark: SparkSession, cluster: Cluster, servers: str
) -> None:
    one, two = make_topic(cluster, "eo-place-1", 3), make_topic(cluster, "eo-place-2", 4)
    topic = "if(id % 2 = 0, 'eo-place-1', 'eo-place-2') topic"
    rows = spark.range(0, 400, 1, 2).selectExpr(
        "if(id < 200, cast(id as string), null) key", "cast(id as string) value", topic, "id"
    )
    sink = {"kafka.bootstrap.servers": servers}
    rows.where("id < 200").write.format("barnabas").options(**sink).mode("append").save()
    expected = placed(cluster, one + two)
    assert len(expected) == 200
    for row in (
        to_topic(rows, options=sink).select("*", f.spark_partition_id().alias("t")).collect()
    ):
        place = Place(row.topic, row.partition)
        assert place in one + two
        if row.key is not None:
            assert expected[row.value] == place
    alone = to_topic(rows.drop("topic"), "eo-place-1", options=sink)
    assert alone.columns == ["key", "value", "partition"]
    by_key = {row.key: row.partition for row in alone.where("key is not null").collect()}
    for key, place in expected.items():
        assert place.topic != "eo-place-1" or by_key[key] == place.partition
    spread = alone.where("key is null").groupBy("partition").count().collect()
    assert {row.partition for row in spread} == {0, 1, 2}
    assert min(row["count"] for row in spread) > 20


def test_what_to_topic_refuses(spark: SparkSession, cluster: Cluster, servers: str) -> None:
    make_topic(cluster, "eo-refused", 2)
    rows = numbers(spark, 4, 1)
    with pytest.raises(SparkJobError, match="eo-nowhere"):
        to_topic(rows, "eo-nowhere", servers=servers)
    with pytest.raises(SparkJobError, match="tasks=0"):
        to_topic(rows, "eo-refused", servers=servers, tasks=0)
    given = rows.selectExpr("key", "value", "cast(null as int) partition")
    with pytest.raises(PySparkException) as problem:
        to_topic(given, "eo-refused", servers=servers).collect()
    assert "column partition is null" in str(problem.value)
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.speculation", "true")
    try:
        with pytest.raises(SparkJobError, match=r"set spark\.speculation=false"):
            to_topic(numbers(spark.newSession(), 4, 1), "eo-refused", servers=servers)
    finally:
        settings.remove("spark.speculation")
