"""Casts, conditions, nulls and keys; and what becomes of records that are no rows."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.spark.formats.records import columns, read, records, source, text

from barnabas.spark.deaths import needs_change, sentence_of
from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats import check_source, decode, source_columns
from barnabas.spark.pipelines.places import PipelineError
from barnabas.testing import Broker

pytestmark = pytest.mark.timeout(400)


def test_casts(spark: SparkSession) -> None:
    given = [
        b'{"amount":"1.5","seconds":1769860800}',
        b'{"amount":null}',
        b'{"amount":"abc"}',
        b'{"amount":"' + b"9" * 200 + b'"}',
        b'{"amount":"a\\nb"}',
        None,
    ]
    of = source(
        "amount STRING, seconds BIGINT",
        cast={"Amount": text("DECIMAL(10,2)"), "seconds": text("TIMESTAMP")},
    )
    rows, dead = read(spark, given, of)
    assert columns(rows[0])["amount"] == Decimal("1.50")
    assert columns(rows[0])["seconds"].isoformat() == "2026-01-31T12:00:00"
    assert (columns(rows[1]), columns(rows[5])) == ({}, {})
    assert dead == {
        2: "amount: 'abc' is no DECIMAL(10,2)",
        3: f"amount: '{'9' * 100}…' is no DECIMAL(10,2)",
        4: "amount: 'a b' is no DECIMAL(10,2)",
    }


def test_conditions_also_such_that_raise(spark: SparkSession) -> None:
    given = [
        b'{"a":2,"b":"5"}',
        b'{"a":0,"b":"5"}',
        b'{"a":-1,"b":"5"}',
        b'{"a":2,"b":"five"}',
        b'{"a":2147483647,"b":"5"}',
        b'{"b":"5"}',
        None,
    ]
    # The first two share a part that raises: Spark must not compute it outside of them.
    of = source(
        "a INT, b STRING",
        expect=(
            text("1 / a > 0 -- whole"),
            text("1 / a > 0\n AND 1 / a < 9"),
            text("CAST(b AS INT) > 3"),
            text("a * 1000 > 0 AND _offset >= 0"),
        ),
    )
    rows, dead = read(spark, given, of)
    assert sorted(rows) == [0, 6]
    assert dead == {
        1: "does not meet: 1 / a > 0 -- whole",
        2: "does not meet: 1 / a > 0 -- whole",
        3: "does not meet: CAST(b AS INT) > 3",
        4: "does not meet: a * 1000 > 0 AND _offset >= 0",
        5: "does not meet: 1 / a > 0 -- whole",
    }


def test_records_without_value(spark: SparkSession) -> None:
    given = [None, b'{"a":1}']
    for nulls, kept, died in (("keep", [0, 1], []), ("skip", [1], []), ("dead-letter", [1], [0])):
        rows, dead = read(spark, given, source("a INT", nulls=nulls, expect=(text("a > 0"),)))
        assert (sorted(rows), sorted(dead)) == (kept, died)


def test_keys(spark: SparkSession) -> None:
    rows, _ = read(spark, [b"x"], source(format="raw"), key="ä".encode())
    assert rows[0]["_key"] == "ä"
    rows, dead = read(spark, [b"x"], source(format="raw"), key=b"\xff")
    assert dead == {0: "the key is no UTF-8 text (key: binary takes any bytes)"}
    rows, dead = read(spark, [b"x"], source(format="raw", key="binary"), key=b"\xff")
    assert bytes(rows[0]["_key"]) == b"\xff"


def test_what_a_dead_letter_has(spark: SparkSession) -> None:
    decoded = decode(records(spark, [b"{}", b"\xff"]), source("a INT"), pipeline="bills")
    assert decoded.dead is not None
    assert decoded.dead.columns == ["key", "value", "headers"]
    record = decoded.dead.collect()[0]
    assert (bytes(record["key"]), bytes(record["value"])) == (b"k", b"\xff")
    assert [(each["key"], bytes(each["value"]).decode()) for each in record["headers"]] == [
        ("h", "1"),
        ("barnabas.reason", "the value is no UTF-8 text"),
        ("barnabas.pipeline", "bills"),
        ("barnabas.source", "orders"),
        ("barnabas.topic", "orders-topic"),
        ("barnabas.partition", "3"),
        ("barnabas.offset", "1"),
        ("barnabas.timestamp", "2026-01-31T12:00:00.000Z"),
    ]


SENTENCE = (
    "The record orders-topic-3@1 can not be read: does not fit the schema: a is no INT (source "
    "orders): correct what writes such records, or name a topic for them with dead_letter in "
    "sources.orders."
)


def test_without_a_topic_for_it_a_record_ends_the_query(spark: SparkSession) -> None:
    of = replace(source("a INT"), dead_letter=None)
    decoded = decode(records(spark, [b'{"a":1}', b'{"a":"x"}']), of, pipeline="bills")
    assert decoded.dead is None
    # Whatever of the row is asked for, even nothing.
    for asked in (decoded.rows.select("_offset"), decoded.rows.groupBy().count()):
        with pytest.raises(Exception, match="PoisonRecordError") as raised:
            asked.collect()
        assert sentence_of(raised.value) == SENTENCE
        assert needs_change(raised.value)
    fine = decode(records(spark, [b'{"a":1}']), of, pipeline="bills").rows
    assert fine.count() == 1


def test_a_record_of_a_table_is_mended_by_another_of_its_key(spark: SparkSession) -> None:
    """A table can have no dead letters, so nobody is sent for them."""
    of = replace(source("a INT"), dead_letter=None, table=True, nulls="skip")
    rows = decode(records(spark, [b'{"a":"x"}']), of, pipeline="bills").rows
    with pytest.raises(Exception, match="PoisonRecordError") as raised:
        rows.collect()
    assert sentence_of(raised.value) == (
        "The record orders-topic-3@0 can not be read: does not fit the schema: a is no INT (source "
        "orders): correct what writes such records, and write another one with its key: one that "
        "can be read, or one without a value to have the row gone."
    )


def test_records_are_decoded_once(spark: SparkSession) -> None:
    of = source("a INT, b STRING", cast={"b": text("INT")}, expect=(text("a > 0"),))
    rows = decode(records(spark, [b"{}"]), of, pipeline="bills").rows
    plan = rows.where("a > 1 AND b > 1")._jdf.queryExecution().executedPlan().toString()
    both = "from_json(StructField(__barnabas_end,ArrayType(StructType(StructField(a,IntegerType"
    assert plan.count(f"{both},true),StructField(b,") == 1
    assert plan.count("try_cast(") == 1
    filters = [line for line in plan.splitlines() if "Filter" in line]
    assert filters
    assert not any("from_json" in line or "try_cast" in line for line in filters)


def test_streams(spark: SparkSession, shared_broker: Broker, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers})
    for value in (b'{"a":1}', b"poison", b'{"a":3}'):
        producer.produce("formats-in", value, partition=0)
    assert producer.flush(60) == 0
    raw = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", shared_broker.bootstrap_servers)
        .option("subscribe", "formats-in")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("columns", ",".join(source_columns()))
        .load()
    )
    decoded = decode(raw, source("a INT"), pipeline="bills")
    assert decoded.dead is not None
    found = {}
    for name, frame in (("rows", decoded.rows.select("a")), ("dead", decoded.dead.select("value"))):
        query = (
            frame.writeStream.format("memory")
            .queryName(f"formats_{name}")
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)
        found[name] = [row[0] for row in spark.table(f"formats_{name}").collect()]
    assert sorted(found["rows"]) == [1, 3]
    assert [bytes(value) for value in found["dead"]] == [b"poison"]
    ending = decode(raw, replace(source("a INT"), dead_letter=None), pipeline="bills").rows
    query = (
        ending.select("_offset").writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "ending"))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    with pytest.raises(Exception, match="PoisonRecordError") as raised:
        query.awaitTermination(90)
    assert sentence_of(raised.value).startswith("The record formats-in-0@1 can not be read: ")
    assert needs_change(raised.value)


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (source("a INT", cast={"b": text("INT")}), r"orders.yaml:9: .*no column b to cast"),
        (source("a INT", cast={"a": text("INTT")}), r"orders.yaml:9: sources.orders.cast.a: "),
        (source("a BOOLEAN", cast={"a": text("DATE")}), r"sources.orders.cast.a: .*BOOLEAN"),
        (source("a STRING", cast={"a": text("ARRAY<INT>")}), r"could leave nulls within"),
        (source("a INT", expect=(text("b > 0", 12),)), r"orders.yaml:12: .*expect: b > 0: .*`b`"),
        (source("a INT", expect=(text("a >"),)), r"sources.orders.expect: a >: "),
        (source("a INT", expect=(text("a + 1"),)), r"sources.orders.expect: a \+ 1: "),
        (source("a INT", expect=(text("sum(a) > 0"),)), r"sources.orders.expect: sum"),
        # Rows and dead letters are told apart at two moments.
        (source("a DATE", expect=(text("a <= current_date()", 12),)), r":12: .*\(CurrentDate\)"),
        (source("a TIMESTAMP", expect=(text("a < now()"),)), r"expect: a < now\(\): .*\(Now\)"),
        (
            source("a BIGINT", expect=(text("a < unix_timestamp()"),)),
            r"looked at \(CurrentTimestamp\)",
        ),
        (source("a INT", expect=(text("rand() > 0.5"),)), r"looked at \(Rand\), or a record"),
    ],
)
def test_what_can_not_be_is_refused(spark: SparkSession, of: TopicSource, sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        check_source(of)
