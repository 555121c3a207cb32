"""Records as the source gives them, sources and sinks as a file says them, for tests of formats."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from barnabas.spark.pipelines.definition import TopicSink, TopicSource
from barnabas.spark.pipelines.formats import decode
from barnabas.spark.pipelines.places import At, Text

AT = At("orders.yaml", 7)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)


def text(value: str, line: int = 9) -> Text:
    return Text(value, At("orders.yaml", line))


def source(schema: str | None = None, **more: Any) -> TopicSource:
    given = {"schema": None if schema is None else text(schema), "dead_letter": text("dead")} | more
    return TopicSource("orders", AT, ("orders-topic",), **given)


def sink(**more: Any) -> TopicSink:
    return TopicSink("totals", AT, text("per_minute"), text("totals-topic"), **more)


def records(
    spark: SparkSession, values: Sequence[bytes | None], key: bytes | None = b"k"
) -> DataFrame:
    """One record for each value, its offset the place in the list; every other one has headers."""
    rows = [
        (key, value, "orders-topic", 3, offset, NOON, 0, [("h", b"1")] if offset % 2 else None)
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, RAW)


def read(
    spark: SparkSession, values: Sequence[bytes | None], of: TopicSource, key: bytes | None = b"k"
) -> tuple[dict[int, Row], dict[int, str]]:
    """Rows and reasons by offset; each record is one of them, with its bytes if it is dead."""
    decoded = decode(records(spark, values, key), of, pipeline="bills")
    assert decoded.dead is not None
    rows = {row["_offset"]: row for row in decoded.rows.collect()}
    dead = {}
    for record in decoded.dead.collect():
        headers = [(each["key"], bytes(each["value"]).decode()) for each in record["headers"]]
        said = dict(headers)
        offset = int(said["barnabas.offset"])
        value = record["value"]
        assert (None if value is None else bytes(value)) == values[offset]
        dead[offset] = said["barnabas.reason"]
    left = 0 if of.nulls != "skip" else values.count(None)
    assert not rows.keys() & dead.keys()
    assert len(rows) + len(dead) == len(values) - left
    return rows, dead


def columns(row: Row) -> dict[str, Any]:
    """Those of the value that are not null."""
    return {
        name: value
        for name, value in row.asDict().items()
        if not name.startswith("_") and value is not None
    }
