"""Two writers on one partition: none of their batches is committed, whatever the broker says."""

import pickle
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.cluster.stage import Stage, make_topic
from tests.spark.exactly_once.driving import (
    Query,
    Rows,
    arrow,
    rows_for,
    task_context,
    values,
)

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.errors import SharedPartitionError, UnavailableError
from barnabas.spark.places import Place
from barnabas.spark.sink.exactly_once import TaskWrote, write_rows
from barnabas.spark.sink.guard import Numbers, PartitionGuard
from barnabas.wire.apis import PRODUCE

A = rows_for(0, "a1", "a2")


class LateGuard(PartitionGuard):
    """Somebody else comes between the question and the first batch."""

    meanwhile: Callable[[], Any]

    def before_first(self, places: Collection[Place]) -> None:
        super().before_first(places)
        self.meanwhile()


def racing(query: Query, planned: bytes, rows: Rows, meanwhile: Callable[[], Any]) -> TaskWrote:
    """A task that has asked, and is then overtaken."""
    writer = pickle.loads(planned)
    cluster = cluster_of(query.options.connection)
    guard = LateGuard(cluster, writer.begun.producer, query.options.codec)
    guard.meanwhile = meanwhile
    written = write_rows(guard, query.options, query.shape, writer.begun, iter([arrow(rows)]))
    return TaskWrote(writer.begun, query.query_id, written)


@pytest.fixture
def query(stage: Stage, servers: str, topic: str) -> Query:
    make_topic(stage.cluster, topic, 3)
    return Query(servers, topic=topic, sinkid=topic)


def places(query: Query) -> list[Place]:
    return [Place(query.options.topic or "", number) for number in range(3)]


def test_the_second_task_on_a_partition_is_refused(stage: Stage, query: Query) -> None:
    planned = query.plan()
    first = query.task(planned, 0, A)
    with pytest.raises(SharedPartitionError, match=r"barnabas\.spark\.to_topic"):
        query.task(planned, 0, rows_for(0, "b1"))
    with pytest.raises(UnavailableError):
        query.commit([first], 0)
    assert values(stage.cluster, *places(query)) == []


@pytest.mark.parametrize("others", [["b1", "b2"], ["b1"], ["b1", "b2", "b3"]])
def test_a_race_on_a_partition_is_noticed_by_the_one_that_lost_it(
    stage: Stage, query: Query, others: list[str]
) -> None:
    """With as many rows as the winner has, the broker says that all is well."""
    planned = query.plan()
    with pytest.raises(SharedPartitionError, match=r"barnabas\.spark\.to_topic"):
        racing(query, planned, rows_for(0, *others), lambda: query.task(planned, 0, A))
    assert values(stage.cluster, *places(query)) == []


def test_a_race_is_noticed_also_after_a_lost_answer(stage: Stage, query: Query) -> None:
    planned = query.plan()

    def overtaken() -> None:
        query.task(planned, 0, A)
        stage.road.to_lose[PRODUCE] = 1

    with pytest.raises(SharedPartitionError):
        racing(query, planned, rows_for(0, "b1", "b2"), overtaken)


def test_a_lost_answer_alone_is_no_race(stage: Stage, query: Query) -> None:
    stage.road.to_lose[PRODUCE] = 1
    query.run(0, A, rows_for(1, "b1"))
    assert values(stage.cluster, *places(query)) == ["a1", "a2", "b1"]


def test_two_messages_about_one_partition_are_never_committed(stage: Stage, query: Query) -> None:
    planned = query.plan()
    message = query.task(planned, 0, A)
    with pytest.raises(SharedPartitionError, match=r"barnabas\.spark\.to_topic"):
        query.commit([message, message], 0)
    query.abort([message, message], 0)
    assert values(stage.cluster, *places(query)) == []


@pytest.mark.parametrize("rows", [A, rows_for(0, "b1", "b2"), rows_for(0, "b1")])
def test_a_stage_that_is_run_again_is_refused(stage: Stage, query: Query, rows: Rows) -> None:
    """With attempt 0, as after a fetch failure; the first run's task is lost to Spark."""
    planned = query.plan()
    query.task(planned, 0, A)
    with pytest.raises(SharedPartitionError, match=r"spark\.stage\.maxConsecutiveAttempts=1"):
        query.task(planned, 0, rows)
    query.run(0, rows)
    assert values(stage.cluster, *places(query)) == [row["value"] for row in rows]


def test_what_a_forgotten_task_wrote_elsewhere_keeps_the_batch_from_being_committed(
    stage: Stage, query: Query
) -> None:
    planned = query.plan()
    query.task(planned, 0, rows_for(2, "forgotten"))
    counted = query.task(planned, 0, A)
    with pytest.raises(UnavailableError, match="other partitions"):
        query.commit([counted], 0)
    query.abort([counted], 0)
    query.run(0, A)
    assert values(stage.cluster, *places(query)) == ["a1", "a2"]


def test_rows_that_are_missing_in_the_log_keep_the_batch_from_being_committed(
    stage: Stage, query: Query
) -> None:
    planned = query.plan()
    message = query.task(planned, 0, A)
    assert message.written is not None
    message.written[places(query)[0]] = Numbers(3, 2)
    with pytest.raises(UnavailableError, match="should end at sequence 2"):
        query.commit([message], 0)
    del message.written[places(query)[0]]
    message.written[places(query)[1]] = Numbers(1, 0)
    with pytest.raises(UnavailableError, match="other partitions"):
        query.commit([message], 0)


def test_a_task_that_fails_gives_the_batch_up_at_once(stage: Stage, query: Query) -> None:
    planned = query.plan()
    other = query.task(planned, 0, A)
    writer = pickle.loads(planned)

    def failing() -> Iterator[pa.RecordBatch]:
        yield arrow(rows_for(1, "b1"))
        raise ValueError("upstream")

    with task_context(0, 0, query.query_id), pytest.raises(ValueError, match="upstream"):
        writer.write(failing())
    with pytest.raises(UnavailableError, match="another of its tasks has failed"):
        query.commit([other], 0)
    query.run(0, A)
    assert values(stage.cluster, *places(query)) == ["a1", "a2"]


def test_a_query_dies_of_what_its_task_died_of(stage: Stage, query: Query) -> None:
    """Spark repeats a task that raises, and tells what its last repetition has raised."""
    planned = query.plan()
    first = query.task(planned, 0, A)
    shared = query.message(planned, 0, iter([arrow(A)]))
    given_up = query.message(planned, 0, iter([arrow(rows_for(1, "b1"))]))
    with pytest.raises(SharedPartitionError, match=r"barnabas\.spark\.to_topic"):
        query.commit([first, given_up, shared], 0)
    query.abort([first, given_up, shared], 0)
    query.run(0, A)
    assert values(stage.cluster, *places(query)) == ["a1", "a2"]


def test_a_task_that_is_run_again_lets_its_input_fail_again(query: Query) -> None:
    """So that the query dies of that, and not of the repetition."""

    def failing() -> Iterator[pa.RecordBatch]:
        yield arrow(rows_for(1, "b1"))
        raise ValueError("upstream")

    planned = query.plan()
    for attempt in range(2):
        with pytest.raises(ValueError, match="upstream"):
            query.message(planned, 0, failing(), attempt)


@pytest.mark.parametrize(
    "config",
    [
        {"message_timestamp_type": "LogAppendTime"},
        {"message_timestamp_type": "LogAppendTime", "compression_type": "gzip"},
        {"compression_type": "zstd"},
    ],
)
def test_topics_whose_broker_changes_batches_are_written_too(
    stage: Stage, servers: str, topic: str, config: dict[str, str]
) -> None:
    (place,) = make_topic(stage.cluster, topic, 1, **config)
    query = Query(servers, topic=topic, sinkid=topic)
    query.run(0, A)
    assert values(stage.cluster, place) == ["a1", "a2"]
    stage.road.to_lose[PRODUCE] = 1
    if "compression_type" in config:
        # What is stored can not be compared with what was sent: better once more than not once.
        with pytest.raises(UnavailableError, match="can not be compared"):
            query.run(1, A)
        query.run(1, A)
    else:
        query.run(1, A)
    assert values(stage.cluster, place) == ["a1", "a2"] * 2
    if "message_timestamp_type" in config:
        planned = query.plan()
        if "compression_type" not in config:
            with pytest.raises(SharedPartitionError):
                racing(query, planned, rows_for(0, "b1", "b2"), lambda: query.task(planned, 2, A))
