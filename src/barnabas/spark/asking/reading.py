"""Pinned offsets as a DataFrame: files and the broker's records in one."""

import json
from collections.abc import Collection, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final

from barnabas.spark.archives.layout import spark_schema
from barnabas.spark.asking.pinning import Pinned, Ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PUSHED: Final = frozenset({"partition", "offset", "timestamp"})


def pinned_frame(
    spark: "SparkSession", pinned: Pinned, options: Mapping[str, str], columns: Collection[str]
) -> "DataFrame":
    """Every record once, with these of a record's columns; in no order."""
    # One is needed to count rows by, and this one is made of nothing that has to be decoded.
    wanted = [name for name in spark_schema().names if name in columns] or ["timestampType"]
    parts = [
        _from_broker(spark, pinned.topic, ranges, options, wanted)
        for ranges in (pinned.before, pinned.after)
        if ranges
    ]
    if pinned.contents is not None and pinned.archived:
        parts.insert(0, pinned.contents.frame(spark, pinned.archived).select(*wanted))
    if not parts:
        return spark.createDataFrame([], spark_schema()).select(*wanted)
    return reduce(lambda one, other: one.unionByName(other), parts)


def _from_broker(
    spark: "SparkSession",
    topic: str,
    ranges: Ranges,
    options: Mapping[str, str],
    columns: Collection[str],
) -> "DataFrame":
    def offsets(which: int) -> str:
        return json.dumps({topic: {str(number): each[which] for number, each in ranges.items()}})

    reader = spark.read.format("barnabas").options(**options)
    return (
        reader.option("assign", json.dumps({topic: sorted(ranges)}))
        .option("startingOffsets", offsets(0))
        .option("endingOffsets", offsets(1))
        # Without one of these there is no filter to push, and one process of Spark's less to start.
        .option("pushdown", str(not _PUSHED.isdisjoint(columns)).lower())
        .option("columns", ",".join(columns))
        .load()
    )
