"""The driver that is killed: a topic, a transformation with a shuffle, a topic, exactly once.

Started as a process of its own; tells what happens to it as JSON lines in a file.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.spark import keep_running, session, to_topic

INPUT, OUTPUT, GROUP, SINK = "input", "output", "spark-kills", "spark-kills-sink"
COPIES_EVERY = 5


@dataclass(frozen=True)
class Orders:
    """What the driver is told on its command line."""

    servers: str
    master: str
    checkpoint: str
    events: Path
    offsets_per_trigger: int
    forgetful: bool


def tell(orders: Orders, **event: Any) -> None:
    """A line that survives the end of this process."""
    with orders.events.open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), "at": time.time(), **event}) + "\n")


def transformed(rows: DataFrame) -> DataFrame:
    """One row or two for each record, shuffled by key in between; `expected` says the same."""
    number = f.expr("CAST(split(CAST(value AS STRING), ':')[0] AS BIGINT)")
    copies = f.when(number % COPIES_EVERY == 0, 2).otherwise(1)
    return (
        rows.select(f.col("key"), f.col("value"), number.alias("number"), copies.alias("copies"))
        .repartition(4, "key")
        .select("key", "number", "value", f.explode(f.sequence(f.lit(1), "copies")).alias("copy"))
        .select(
            f.concat(f.lit("k"), f.col("number") % 997).cast("binary").alias("key"),
            f.concat_ws(":", "number", "copy", f.md5("value")).cast("binary").alias("value"),
        )
    )


def query_of(spark: SparkSession, orders: Orders) -> StreamingQuery:
    """Topic to topic; the offsets of its group are part of the output's transactions."""
    rows = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", orders.servers)
        .option("subscribe", INPUT)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(orders.offsets_per_trigger))
        .option("kafka.group.id", GROUP)
        .load()
    )
    format_ = "barnabas"
    if orders.forgetful:
        from tests.chaos.spark.forgetful import ForgetfulSource

        spark.dataSource.register(ForgetfulSource)
        format_ = ForgetfulSource.name()
    return (
        to_topic(transformed(rows), OUTPUT, servers=orders.servers)
        .writeStream.format(format_)
        .option("kafka.bootstrap.servers", orders.servers)
        .option("topic", OUTPUT)
        .option("delivery", "exactly-once")
        .option("sinkId", SINK)
        .option("sourceGroup", GROUP)
        .option("checkpointLocation", orders.checkpoint)
        .start()
    )


def started(spark: SparkSession, orders: Orders) -> Callable[[], StreamingQuery]:
    """Starts the query anew each time, and tells so."""

    def start() -> StreamingQuery:
        query = query_of(spark, orders)
        tell(orders, event="started", run=str(query.runId))
        return query

    return start


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("servers", "master", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--offsets-per-trigger", type=int, default=10_000)
    parser.add_argument("--forgetful", action="store_true")
    orders = Orders(**vars(parser.parse_args()))
    settings = {
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.driver.memory": "1g",
        # Executors are killed many times a minute: none of that is a reason to give up.
        "spark.deploy.maxExecutorRetries": "-1",
    }
    if orders.forgetful:
        # Executors have the package, but not these tests, where the control's sink is.
        settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    spark = session("spark-kills", master=orders.master, settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    keep_running(
        started(spark, orders),
        first_pause_s=0.5,
        longest_pause_s=5.0,
        on_death=lambda error: tell(orders, event="died", why=str(error)[:2000]),
    )


if __name__ == "__main__":
    main()
