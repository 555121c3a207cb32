"""Queries that can not get on in one Spark, and what streams leave in the memory of it."""

import threading
import uuid
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from barnabas.spark.job import FAILED
from barnabas.spark.pipelines.building import build
from barnabas.spark.pipelines.events import Teller
from barnabas.spark.pipelines.job import rebuilt
from barnabas.spark.pipelines.lives import GIVEN_UP, Lives
from barnabas.spark.pipelines.order import Order
from barnabas.spark.pipelines.reading import read
from barnabas.spark.pipelines.reporting import Reporter
from barnabas.spark.pipelines.state import State
from barnabas.spark.pipelines.status import Status
from barnabas.spark.pipelines.status import read as read_status
from barnabas.spark.stream_starts import allow_starts_at_once, environment_of_source
from barnabas.testing import Broker

FILE = """\
pipeline: ticks
servers: 127.0.0.1:9
functions:
  stumble: {python: "stumbling:stumble"}
sources:
  ticks: {format: rate, stream: true}
steps:
  stumbled: SELECT stumble(value) AS value FROM ticks
sinks:
  kept: {from: stumbled, table: kept}
"""
RULES = """\
def stumble(number: int) -> int:
    raise RuntimeError("it stumbled")
"""


@pytest.mark.parametrize(("restarts", "code"), [(None, FAILED), (1, GIVEN_UP)])
def test_a_query_that_never_gets_on_is_tried_in_another_spark(
    spark: SparkSession, tmp_path: Path, restarts: int | None, code: int
) -> None:
    (tmp_path / "ticks.yaml").write_text(FILE)
    (tmp_path / "stumbling.py").write_text(RULES)
    pipeline = read(str(tmp_path / "ticks.yaml"))
    order = Order(pipeline, "now", restarts=restarts)
    state = State.of(pipeline)
    Path(pipeline.state).mkdir(parents=True)
    complaints: list[str] = []
    reporter = Reporter(state, Status(pipeline.name, pipeline.file, run="now"), complaints.append)
    queries = build(spark, pipeline)
    lives = Lives(order, queries, state, reporter, Teller(), partial(rebuilt, spark))
    assert lives.run(threading.Event()) == code
    assert not complaints
    said = read_status(pipeline.state)
    assert said is not None
    assert ("Spark is started anew" in (said.sentence or "")) == (restarts is None)


def test_a_stream_that_starts_adds_nothing_to_what_all_of_them_share(
    spark: SparkSession, shared_broker: Broker, tmp_path: Path
) -> None:
    """Or two that start at once could, and no task of that Java would ever be serialised again."""
    topic = f"shared-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    allow_starts_at_once(spark)
    before = set(environment_of_source(spark.newSession()).keySet())
    stream = (
        spark.newSession()
        .readStream.format("barnabas")
        .option("kafka.bootstrap.servers", shared_broker.bootstrap_servers)
        .option("subscribe", topic)
        .load()
    )
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    query.processAllAvailable()
    query.stop()
    after = set(environment_of_source(spark).keySet())
    assert after == before
    assert "SPARK_LOCAL_DIRS" in after
