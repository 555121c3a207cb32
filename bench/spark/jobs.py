"""The measured jobs: each does its work on one connector and says how fast it went."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bench.spark.stage import PARTITIONS, VALUE_BYTES, Stage
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from tests.compat.clients.spark.harness import OFFICIAL, OURS

from barnabas.spark import to_topic

EXACTLY_ONCE: Final = "barnabas, exactly once"
"""Not a format, but ours with another delivery."""
QUERY_S_MAX: Final = 180
_SKIPPED_TRIGGERS: Final = 5
"""The first ones load classes and start processes."""


class Speed(NamedTuple):
    """What one run did."""

    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """The figure to compare."""
        return self.rows / self.seconds


Run = Callable[[Stage, str], Speed]


@dataclass(frozen=True)
class Job:
    """A name for the table, and how it is done with a connector."""

    name: str
    run: Run
    contestants: tuple[str, ...] = (OFFICIAL, OURS)


def batch_read(topic: str, finish: Callable[[DataFrame], object], subset: str = "") -> Run:
    """Read a topic once; `subset` are the columns that the job uses."""

    def run(stage: Stage, connector: str) -> Speed:
        options = stage.servers() | {"subscribe": topic}
        if subset and connector == OURS:
            options["columns"] = subset
        df = stage.session.read.format(connector).options(**options).load()
        if subset:
            df = df.select(*subset.split(","))
        began = time.perf_counter()
        finish(df)
        return Speed(stage.sizes[topic], time.perf_counter() - began)

    return run


def into_noop(df: DataFrame) -> None:
    """Every column of every row is made, and thrown away."""
    df.write.format("noop").mode("overwrite").save()


def counted(df: DataFrame) -> None:
    """No column is needed."""
    df.count()


def stream_read(topic: str, limit: int) -> Run:
    """Read a topic by micro-batches of at most `limit` records."""

    def run(stage: Stage, connector: str) -> Speed:
        writer = _read_stream(stage, connector, topic, limit).writeStream.format("noop")
        return _finished(stage, writer)

    return run


def batch_write(rows: int) -> Run:
    """Rows that Java makes, into a new topic."""

    def run(stage: Stage, connector: str) -> Speed:
        topic = stage.fresh("written")
        stage.topics.create(topic, PARTITIONS)
        df = stage.session.range(0, rows, 1, 4).selectExpr(
            "cast(lpad(cast(id AS string), 10, '0') AS binary) AS key",
            f"cast(lpad(cast(id AS string), {VALUE_BYTES}, 'value ') AS binary) AS value",
        )
        began = time.perf_counter()
        df.write.format(connector).options(**stage.servers(), topic=topic).mode("append").save()
        seconds = time.perf_counter() - began
        stage.topics.delete(topic)
        return Speed(rows, seconds)

    return run


def topic_to_topic(topic: str, limit: int) -> Run:
    """Read a topic by micro-batches and write each into another one."""

    def run(stage: Stage, connector: str) -> Speed:
        target = stage.fresh("copied")
        stage.topics.create(target, PARTITIONS)
        source = _read_stream(stage, format_of(connector), topic, limit).select("key", "value")
        speed = _finished(stage, _into_topic(stage, source, connector, target))
        stage.topics.delete(target)
        return speed

    return run


Phases = dict[str, float]
"""Milliseconds of a micro-batch by what Spark did in them; `triggerExecution` is all of it."""


def trigger_times(stage: Stage, connector: str, *, into_topic: bool, triggers: int) -> list[Phases]:
    """How long each micro-batch took while a few records trickle in."""
    topic, target = stage.fresh("trickle"), stage.fresh("target")
    for name in (topic, target):
        stage.topics.create(name, PARTITIONS)
    reader = stage.session.readStream.format(format_of(connector))
    df = reader.options(**stage.servers(), subscribe=topic).load().select("key", "value")
    writer = (
        _into_topic(stage, df, connector, target) if into_topic else df.writeStream.format("noop")
    )
    with stage.trickle(topic):
        query = (
            writer.option("checkpointLocation", stage.checkpoint())
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            times = _times_of(query, triggers)
        finally:
            query.stop()
    for name in (topic, target):
        stage.topics.delete(name)
    return times


def format_of(connector: str) -> str:
    """The word in `format(…)`."""
    return OURS if connector == EXACTLY_ONCE else connector


def _read_stream(stage: Stage, connector: str, topic: str, limit: int) -> DataFrame:
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(limit),
    }
    return stage.session.readStream.format(connector).options(**stage.servers(), **options).load()


def _into_topic(stage: Stage, df: DataFrame, connector: str, target: str) -> Any:
    options = {"topic": target}
    if connector == EXACTLY_ONCE:
        df = to_topic(df, target, servers=stage.broker.address)
        options["delivery"] = "exactly-once"
    return df.writeStream.format(format_of(connector)).options(**stage.servers(), **options)


def _finished(stage: Stage, writer: Any) -> Speed:
    """Of all micro-batches; the start of the query is left out."""
    query = (
        writer.option("checkpointLocation", stage.checkpoint()).trigger(availableNow=True).start()
    )
    try:
        if not query.awaitTermination(QUERY_S_MAX):
            raise TimeoutError("the query does not end")
        told = _progress(query)
    finally:
        query.stop()
    rows = sum(each["numInputRows"] for each in told)
    millis = sum(each["durationMs"]["triggerExecution"] for each in told)
    return Speed(rows, millis / 1000)


def _times_of(query: StreamingQuery, triggers: int) -> list[Phases]:
    deadline = time.monotonic() + QUERY_S_MAX
    found: dict[int, Phases] = {}
    while len(found) < triggers + _SKIPPED_TRIGGERS:
        if time.monotonic() > deadline or not query.isActive:
            raise TimeoutError(f"only {len(found)} micro-batches: {query.exception()}")
        time.sleep(1)
        for each in _progress(query):
            if each["numInputRows"]:
                found[each["batchId"]] = each["durationMs"]
    return [found[batch] for batch in sorted(found)][_SKIPPED_TRIGGERS:]


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(each.json) for each in query.recentProgress]
