"""`starting: latest` is one place for all queries of a run, whenever each of them begins."""

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
    NewTopic,
)

from barnabas.client import Producer
from barnabas.spark.pipelines import reading
from barnabas.spark.pipelines.beginnings import FILE, with_beginnings
from barnabas.spark.pipelines.definition import Pipeline, TopicSource
from barnabas.spark.pipelines.state import State
from barnabas.testing import Broker

FILE_TEXT = """\
pipeline: p
servers: {servers}
sources:
  new: {{topic: new, format: text, starting: latest, dead_letter: dead}}
  all: {{topic: new, format: text}}
  some: {{pattern: "ne.*", format: text, starting: latest}}
sinks:
  one: {{from: new, topic: out}}
  two: {{from: all, topic: out}}
  three: {{from: some, topic: out}}
"""


@pytest.fixture
def pipeline(broker: Broker, tmp_path: Path) -> Pipeline:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic("new", 2), NewTopic("out", 1)]).values():
        made.result(30)
    file = tmp_path / "p.yaml"
    file.write_text(FILE_TEXT.format(servers=broker.bootstrap_servers))
    pipeline = reading.read(str(file), {})
    Path(pipeline.state).mkdir(parents=True)
    return pipeline


def feed(pipeline: Pipeline, partition: int, count: int) -> None:
    with Producer(pipeline.servers) as producer:
        for _ in range(count):
            producer.send("new", "x", partition=partition)


def beginnings(pipeline: Pipeline, run: str) -> dict[str, object]:
    """Where rows begin."""
    sources = with_beginnings(pipeline, run, State.of(pipeline)).sources.values()
    return {
        source.name: None if source.beginning is None else json.loads(source.beginning)
        for source in sources
        if isinstance(source, TopicSource)
    }


def test_one_place_for_a_whole_run(pipeline: Pipeline) -> None:
    feed(pipeline, 0, 3)
    first = {"new": {"new": {"0": 3, "1": 0}}, "all": None, "some": {"new": {"0": 3, "1": 0}}}
    assert beginnings(pipeline, "monday") == first
    feed(pipeline, 1, 2)
    assert beginnings(pipeline, "monday") == first
    later = {"new": {"new": {"0": 3, "1": 2}}, "all": None, "some": {"new": {"0": 3, "1": 2}}}
    assert beginnings(pipeline, "tuesday") == later


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"run": "monday"}', '{"run": "monday", "sou'])
def test_a_damaged_file_is_made_anew(pipeline: Pipeline, damage: str) -> None:
    feed(pipeline, 0, 1)
    (Path(pipeline.state) / FILE).write_text(damage)
    assert beginnings(pipeline, "monday")["new"] == {"new": {"0": 1, "1": 0}}


def test_nothing_is_asked_where_nothing_is_latest(pipeline: Pipeline) -> None:
    text = Path(pipeline.file).read_text().replace(", starting: latest", "")
    Path(pipeline.file).write_text(text)
    plain = reading.read(pipeline.file, {})
    assert with_beginnings(plain, "monday", State.of(plain)) is plain


def test_a_source_that_no_sink_reads_is_not_asked_for(pipeline: Pipeline) -> None:
    unused = "  unused: {topic: nowhere, format: text, starting: latest}\nsinks:\n"
    text = Path(pipeline.file).read_text().replace("sinks:\n", unused)
    Path(pipeline.file).write_text(text)
    found = beginnings(reading.read(pipeline.file, {}), "monday")
    assert found["unused"] is None
    assert found["new"] is not None


def dead_beginning(pipeline: Pipeline, run: str) -> object:
    source = with_beginnings(pipeline, run, State.of(pipeline)).sources["new"]
    assert isinstance(source, TopicSource)
    assert source.dead_beginning is not None
    return json.loads(source.dead_beginning)["new"]


def run_batch(pipeline: Pipeline, query: str, end: dict[str, int], *, done: bool = True) -> None:
    """What Spark leaves in a checkpoint: a batch that was done, or one that was killed."""
    state = State.of(pipeline)
    state.keep_shape(query, {"version": 1})
    checkpoint = Path(state.checkpoint(query))
    number = len(list(checkpoint.glob("offsets/*")))
    for journal in ("offsets", "commits") if done else ("offsets",):
        (checkpoint / journal).mkdir(parents=True, exist_ok=True)
        (checkpoint / journal / str(number)).write_text(f"v1\n{{}}\n{json.dumps({'new': end})}")


def test_a_first_batch_that_was_killed_begins_at_the_same_place(pipeline: Pipeline) -> None:
    """Spark has its end only: with another beginning what is in it would be left out."""
    first = beginnings(pipeline, "monday")["new"]
    feed(pipeline, 0, 3)
    run_batch(pipeline, "one", {"0": 3, "1": 0}, done=False)
    assert beginnings(pipeline, "tuesday")["new"] == first
    assert beginnings(pipeline, "wednesday")["new"] == first
    checkpoint = Path(State.of(pipeline).checkpoint("one"))
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "0").touch()
    assert beginnings(pipeline, "thursday")["new"] == {"new": {"0": 3, "1": 0}}


def test_a_query_that_was_killed_before_it_began_begins_where_the_others_did(
    pipeline: Pipeline,
) -> None:
    first = beginnings(pipeline, "monday")["new"]
    State.of(pipeline).keep_shape("dead-letter-new", {"version": 1})
    feed(pipeline, 0, 3)
    run_batch(pipeline, "one", {"0": 3, "1": 0})
    assert {"new": dead_beginning(pipeline, "tuesday")} == first
    run_batch(pipeline, "dead-letter-new", {"0": 3, "1": 0})
    assert beginnings(pipeline, "wednesday")["new"] == {"new": {"0": 3, "1": 0}}


def test_a_query_that_begins_anew_waits_for_nothing(pipeline: Pipeline) -> None:
    beginnings(pipeline, "monday")
    feed(pipeline, 0, 3)
    run_batch(pipeline, "one", {"0": 3, "1": 0}, done=False)
    State.of(pipeline).begin_anew("one")
    assert beginnings(pipeline, "tuesday")["new"] == {"new": {"0": 3, "1": 0}}


def test_a_partition_that_has_come_since_is_read_whole(pipeline: Pipeline) -> None:
    beginnings(pipeline, "monday")
    run_batch(pipeline, "one", {"0": 0, "1": 0}, done=False)
    admin = AdminClient({"bootstrap.servers": pipeline.servers})
    for made in admin.create_partitions([NewPartitions("new", 3)]).values():
        made.result(30)
    feed(pipeline, 2, 1)
    assert beginnings(pipeline, "tuesday")["new"] == {"new": {"0": 0, "1": 0, "2": -2}}


def test_dead_letters_that_are_new_begin_where_a_sink_was_stopped(pipeline: Pipeline) -> None:
    """By a record that is none, which is why somebody named a topic for such."""
    beginnings(pipeline, "monday")
    feed(pipeline, 0, 5)
    run_batch(pipeline, "one", {"0": 2, "1": 0})
    run_batch(pipeline, "one", {"0": 5, "1": 0}, done=False)
    assert dead_beginning(pipeline, "tuesday") == {"0": 2, "1": 0}
    feed(pipeline, 0, 2)
    run_batch(pipeline, "dead-letter-new", {"0": 7, "1": 0}, done=False)
    assert dead_beginning(pipeline, "wednesday") == {"0": 2, "1": 0}
