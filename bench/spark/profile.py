"""Where the time of our connector goes, phase by phase; each phase holds those above it."""

import contextlib
import cProfile
import io
import pstats
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from bench.spark.bare import BARE, BareSource
from bench.spark.jobs import EXACTLY_ONCE, batch_write, counted, into_noop, trigger_times
from bench.spark.stage import PARTITIONS, Stage, say
from pyspark.sql.pandas.types import from_arrow_schema
from tests.compat.clients.spark.harness import OFFICIAL, OURS

from barnabas.spark.datasource import BarnabasDataSource

_TOPIC: Final = "plain"
_LINES_SHOWN: Final = 25
_TRIGGERS: Final = 20


def profiled(stage: Stage, records: int) -> list[str]:
    """Reading: in this process alone, then through Spark; writing likewise."""
    say("filling a topic")
    stage.fill(_TOPIC, records, "none")
    lines = ["Reading, one process without Spark: fetch, decode, Arrow", ""]
    reader = _reader(stage)
    spans = list(reader.partitions())
    seconds, calls = _watched(lambda: _drained(reader, spans))
    lines += [_rate("fetch + decode + Arrow", records, seconds), *calls]
    batches = [batch for span in spans for batch in reader.read(span)]
    seconds, calls = _watched(lambda: _written(stage, batches))
    lines += ["", "Writing, one process without Spark: partition, encode, send", ""]
    lines += [_rate("encode + send", records, seconds), *calls, ""]
    lines += ["Through Spark, two tasks at a time", ""]
    stage.start_session({"spark.sql.pyspark.dataSource.profiler": "perf"})
    for name, job in _spark_jobs(stage, records):
        job()
        began = time.perf_counter()
        job()
        lines.append(_rate(name, records, time.perf_counter() - began))
    lines += ["", *_workers(stage), ""]
    stage.start_session({})
    return [*lines, *_phases(stage)]


def _phases(stage: Stage) -> list[str]:
    """What Spark does in a tiny micro-batch, on each connector and on one that does nothing."""
    lines = ["A tiny micro-batch, median milliseconds by phase, Spark's default settings", ""]
    stage.session.dataSource.register(BareSource)
    for into_topic in (False, True):
        for connector in (BARE, OFFICIAL, OURS, EXACTLY_ONCE)[: 4 if into_topic else 3]:
            found = trigger_times(stage, connector, into_topic=into_topic, triggers=_TRIGGERS)
            medians = {
                phase: statistics.median(each.get(phase, 0) for each in found)
                for phase in sorted({phase for each in found for phase in each})
            }
            told = ", ".join(f"{phase} {millis:.0f}" for phase, millis in medians.items())
            lines.append(f"topic to {'topic' if into_topic else 'noop'}, {connector}: {told}")
            say(lines[-1])
    return lines


def _spark_jobs(stage: Stage, records: int) -> Iterator[tuple[str, Callable[[], object]]]:
    df = stage.session.read.format(OURS).options(**stage.servers(), subscribe=_TOPIC).load()
    yield "batch read, count()", lambda: counted(df)
    yield "batch read, noop", lambda: into_noop(df)
    yield (
        "rows made by Java, noop",
        lambda: into_noop(
            stage.session.range(0, records, 1, 4).selectExpr(
                "cast(lpad(cast(id AS string), 10, '0') AS binary) AS key",
                "cast(lpad(cast(id AS string), 100, 'value ') AS binary) AS value",
            )
        ),
    )
    yield "batch write", lambda: batch_write(records)(stage, OURS)


def _reader(stage: Stage) -> Any:
    source = BarnabasDataSource({**stage.servers(), "subscribe": _TOPIC})
    return source.reader(source.schema())


def _drained(reader: Any, spans: list[Any]) -> None:
    for span in spans:
        for _ in reader.read(span):
            pass


def _written(stage: Stage, batches: list[Any]) -> None:
    target = stage.fresh("written")
    stage.topics.create(target, PARTITIONS)
    rows = [
        pa.RecordBatch.from_arrays([each.column("key"), each.column("value")], ["key", "value"])
        for each in batches
    ]
    source = BarnabasDataSource({**stage.servers(), "topic": target})
    writer = source.writer(schema=from_arrow_schema(rows[0].schema), overwrite=False)
    writer.commit([writer.write(iter(rows))])
    stage.topics.delete(target)


def _watched(work: Callable[[], None]) -> tuple[float, list[str]]:
    """The time without the profiler, and what the profiler says in a second run."""
    work()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    watch = cProfile.Profile()
    watch.runcall(work)
    text = io.StringIO()
    pstats.Stats(watch, stream=text).sort_stats("tottime").print_stats(_LINES_SHOWN)
    return seconds, text.getvalue().rstrip().splitlines()


def _workers(stage: Stage) -> list[str]:
    """What Spark's own profiler saw in the Python workers."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        stage.session.profile.show(type="perf")
    return text.getvalue().splitlines()


def _rate(name: str, records: int, seconds: float) -> str:
    return (
        f"{name}: {records / seconds / 1000:,.0f}k rows/s, {seconds / records * 1e9:.0f} ns a row"
    )
