"""`python -m barnabas.spark.pipelines.job FILE`: the driver of a pipeline, as `running` starts it.

What to run comes through stdin, as `running` has read it: a file that is edited while its pipeline
runs is taken in by the next run, not by the next restart of the driver.
"""

import logging
import os
import pickle
import signal
import sys
import threading
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from barnabas.model.errors import BarnabasError
from barnabas.spark.deaths import job_error, needs_change, sentence_of
from barnabas.spark.job import FAILED, INTERRUPTED, NEEDS_CHANGE, hear_ctrl_c
from barnabas.spark.pipelines.beginnings import with_beginnings
from barnabas.spark.pipelines.brokers import wait_for_brokers
from barnabas.spark.pipelines.definition import FileSource, OtherSink, Pipeline, TopicSink
from barnabas.spark.pipelines.events import Teller
from barnabas.spark.pipelines.graph import needed
from barnabas.spark.pipelines.lives import GIVEN_UP, Lives
from barnabas.spark.pipelines.order import LOG, Order
from barnabas.spark.pipelines.places import PipelineError
from barnabas.spark.pipelines.progress import OBSERVED
from barnabas.spark.pipelines.reporting import Reporter
from barnabas.spark.pipelines.state import State
from barnabas.spark.pipelines.status import Status
from barnabas.spark.pipelines.troubles import write_down
from barnabas.spark.stream_starts import allow_starts_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.pipelines.queries import Query


class _Signals:
    """The first SIGTERM or Ctrl-C stops cleanly, the second at once."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.is_running = False
        self.code = 0
        self.listen()

    def listen(self) -> None:
        """Once more when Spark is up: PySpark takes Ctrl-C for itself then."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)
        hear_ctrl_c()

    def _hear(self, number: int, _frame: object) -> None:
        self.code = INTERRUPTED if number == signal.SIGINT else 0
        # Before any query runs there is nothing to stop: Java ends when it sees that Python has.
        if self.stop.is_set() or not self.is_running:
            self._leave()
        self.stop.set()

    def _leave(self) -> NoReturn:
        sys.exit(self.code)


def main() -> int:
    """Run the pipeline; the exit code."""
    order: Order = pickle.load(sys.stdin.buffer)
    teller = Teller()
    signals = _Signals()
    teller.send_noise_to(os.path.join(order.pipeline.state, LOG))
    # What the queries die of is told as events.
    logging.getLogger("barnabas.spark").setLevel(logging.CRITICAL)
    reporter = _reporter(order, teller)
    try:
        code = _run(order, reporter, teller, signals)
    except Exception as error:  # noqa: BLE001 - it is told, and decides the exit code
        code = _failed(error, reporter, teller)
    return code or signals.code


def _reporter(order: Order, teller: Teller) -> Reporter:
    pipeline = order.pipeline
    status = Status(pipeline.name, pipeline.file, run=order.run, once=order.once)
    return Reporter(State.of(pipeline), status, lambda sentence: teller.tell("note", sentence))


def _run(order: Order, reporter: Reporter, teller: Teller, signals: _Signals) -> int:
    from barnabas.spark.pipelines.checking import check

    is_new = not reporter.ran_before
    reporter.phase("starting")
    if is_new:
        unreachable = wait_for_brokers(
            order.pipeline, order.restarts, lambda sentence: teller.tell("note", sentence)
        )
        if unreachable is not None:
            return _refused([str(unreachable)], GIVEN_UP, reporter, teller)
    spark = _spark(order.pipeline)
    signals.listen()
    master = str(spark.sparkContext.master)
    reporter.master(master)
    teller.tell("spark", f"Spark is up on {master}.", master=master, pid=os.getpid())
    state = State.of(order.pipeline)
    # A driver that is only started again has nothing new to be told, and brokers may be away.
    if is_new:
        problems = check(order.pipeline, spark, offline=False, shapes_before=state.shapes())
        if problems:
            return _refused(problems, NEEDS_CHANGE, reporter, teller)
    queries = _built(with_beginnings(order.pipeline, order.run, state), spark, state)
    allow_starts_at_once(spark)
    lives = Lives(order, queries, state, reporter, teller, partial(rebuilt, spark))
    signals.is_running = True
    try:
        return lives.run(signals.stop)
    finally:
        # Its scratch files go; a Spark that is gone can not be stopped.
        with suppress(Exception):
            spark.stop()


def _refused(problems: list[str], code: int, reporter: Reporter, teller: Teller) -> int:
    for sentence in problems:
        teller.tell("failed", sentence)
    reporter.phase("failed", "\n".join(problems))
    return code


def _spark(pipeline: Pipeline) -> "SparkSession":
    """Without its talk; only what a console sink prints is for the screen."""
    from barnabas.spark.quiet import quiet_start
    from barnabas.spark.sessions import session

    sinks = pipeline.sinks.values()
    shows = any(isinstance(sink, OtherSink) and sink.format == "console" for sink in sinks)
    with nullcontext() if shows else quiet_start(os.path.join(pipeline.state, LOG)):
        return session(pipeline.name)


def _built(pipeline: Pipeline, spark: "SparkSession", state: State) -> "list[Query]":
    from barnabas.spark.pipelines.building import build
    from barnabas.spark.pipelines.shapes import shape_of

    queries = build(spark, pipeline)
    for query in queries:
        state.keep_shape(query.name, shape_of(query))
    return [_counted(query) for query in queries]


def rebuilt(spark: "SparkSession", query: "Query") -> "Query":
    """The same query over files as they are now: those it was built of may be gone.

    What can not be built, because it is away for a while, is tried as it was.
    """
    from barnabas.spark.pipelines.building import build

    pipeline = query.pipeline
    names = () if query.sink is None else needed(pipeline, query.sink.name)
    behind = [pipeline.sources[name] for name in names if name in pipeline.sources]
    if not any(isinstance(source, FileSource) and not source.stream for source in behind):
        return query
    try:
        return _counted(build(spark, pipeline, only=[query.name])[0])
    except PipelineError as error:
        write_down(error)
        return query


def _counted(query: "Query") -> "Query":
    """With its rows counted, where Spark does not know how many are written."""
    from pyspark.sql.functions import count, lit

    is_topic = query.sink is None or isinstance(query.sink, TopicSink)
    if is_topic and query.output_mode == "append":
        return query
    return replace(query, frame=query.frame.observe(OBSERVED, count(lit(1)).alias("rows")))


def _failed(error: Exception, reporter: Reporter, teller: Teller) -> int:
    ours = error if isinstance(error, BarnabasError) else job_error(error)
    if ours is None:
        write_down(error)
    sentence = sentence_of(ours or error)
    if needs_change(error):
        return _refused(sentence.splitlines(), NEEDS_CHANGE, reporter, teller)
    teller.tell("note", sentence)
    reporter.phase("restarting", sentence)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
