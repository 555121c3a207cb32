"""Every row of the table of failures: what is read as committed is each row, once."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.spark.cluster.stage import Stage, make_topic
from tests.spark.exactly_once.driving import QUERY, Query, rows_for, task_context, values

from barnabas.model.errors import ErrorCode
from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.transactions import END_TXN, TXN_OFFSET_COMMIT
from barnabas.spark.errors import FencedError, NotAnsweredError, SparkJobError, UnavailableError
from barnabas.spark.places import Place
from barnabas.spark.sink.guard import describe_transaction
from barnabas.testing import Broker

A, B = rows_for(0, "a1", "a2"), rows_for(1, "b1")


def markers(stage: Stage, sink: str) -> dict[Place, tuple[int, str]]:
    return stage.cluster.committed_offsets(f"barnabas-spark-{sink}", None, stable=True)


def test_a_batch_and_its_marker_appear_together(stage: Stage, servers: str, topic: str) -> None:
    places = make_topic(stage.cluster, topic, 2)
    query = Query(servers, topic=topic, sinkid=topic)
    planned = query.plan()
    messages = [query.task(planned, 0, A), query.task(planned, 0, B)]
    assert values(stage.cluster, *places) == []
    assert markers(stage, topic) == {}
    query.commit(messages, 0)
    assert values(stage.cluster, *places) == ["a1", "a2", "b1"]
    told = json.dumps({"queryId": QUERY, "offsets": "", "topic": topic})
    assert markers(stage, topic) == {places[0]: (0, told)}
    query.run(1, A)
    assert values(stage.cluster, *places) == ["a1", "a2", "a1", "a2", "b1"]
    assert markers(stage, topic)[places[0]][0] == 1


def test_a_driver_that_dies_before_the_end_leaves_nothing(
    stage: Stage, servers: str, topic: str
) -> None:
    places = make_topic(stage.cluster, topic, 2)
    query = Query(servers, topic=topic, sinkid=topic)
    query.task(query.plan(), 0, A)
    query.run(0, B, A)
    assert values(stage.cluster, *places) == ["a1", "a2", "b1"]


def test_a_batch_that_was_decided_is_skipped_when_it_is_run_again(
    stage: Stage, servers: str, topic: str
) -> None:
    places = make_topic(stage.cluster, topic, 2)
    query = Query(servers, topic=topic, sinkid=topic)
    query.run(0, A)
    query.run(1, B)
    (again,) = Query(servers, topic=topic, sinkid=topic).run(1, rows_for(0, "changed"))
    assert again.written is None
    assert values(stage.cluster, *places) == ["a1", "a2", "b1"]
    query.run(2, rows_for(1, "b2"))
    assert values(stage.cluster, *places) == ["a1", "a2", "b1", "b2"]


def test_a_skipped_task_sees_its_rows_through(stage: Stage, servers: str, topic: str) -> None:
    make_topic(stage.cluster, topic)
    query = Query(servers, topic=topic, sinkid=topic)
    query.run(0, A)
    writer = pickle.loads(query.plan())
    left = iter([1, 2, 3])
    with task_context(attempt=1, batch_id=0, query_id=QUERY):
        assert writer.write(left).written is None
    assert list(left) == []


def test_a_lost_answer_to_the_end_is_asked_for_again(
    stage: Stage, servers: str, topic: str
) -> None:
    places = make_topic(stage.cluster, topic, 2)
    stage.road.to_lose[END_TXN] = 2
    stage.road.to_lose[TXN_OFFSET_COMMIT] = 1
    Query(servers, topic=topic, sinkid=topic).run(0, A, B)
    assert stage.road.to_lose[END_TXN] == 0
    assert values(stage.cluster, *places) == ["a1", "a2", "b1"]


def test_an_end_that_was_decided_but_never_answered_is_not_undone(
    stage: Stage, servers: str, topic: str
) -> None:
    places = make_topic(stage.cluster, topic, 2)
    patience = {"kafka.default.api.timeout.ms": "300"}
    query = Query(servers, topic=topic, sinkid=topic, **patience)
    stage.road.to_lose[END_TXN] = 1000
    # Spark aborts, with the same messages, after a commit that raises.
    with pytest.raises(NotAnsweredError):
        query.run(0, A, B)
    stage.road.to_lose[END_TXN] = 0
    (again,) = Query(servers, topic=topic, sinkid=topic).run(0, A)
    assert again.written is None
    assert values(stage.cluster, *places) == ["a1", "a2", "b1"]


def test_an_abort_after_the_commit_changes_nothing(stage: Stage, servers: str, topic: str) -> None:
    places = make_topic(stage.cluster, topic, 2)
    query = Query(servers, topic=topic, sinkid=topic)
    messages = query.run(0, A)
    query.abort(messages, 0)
    query.abort([None], 0)
    assert values(stage.cluster, *places) == ["a1", "a2"]


def test_an_abort_gives_readers_their_partition_back(
    stage: Stage, servers: str, topic: str
) -> None:
    (place,) = make_topic(stage.cluster, topic)
    query = Query(servers, topic=topic, sinkid=topic)
    query.abort([query.task(query.plan(), 0, A), None], 0)
    sink = f"barnabas-spark-{topic}"
    assert describe_transaction(stage.cluster, sink).state in {"PrepareAbort", "CompleteAbort"}
    query.run(0, rows_for(0, "again"))
    assert values(stage.cluster, place) == ["again"]


def test_a_repeated_task_is_refused_and_gives_the_batch_up(
    stage: Stage, servers: str, topic: str
) -> None:
    places = make_topic(stage.cluster, topic, 2)
    query = Query(servers, topic=topic, sinkid=topic)
    planned = query.plan()
    other = query.task(planned, 0, A)
    with pytest.raises(UnavailableError, match="start the query again"):
        query.task(planned, 0, B, attempt=1)
    with pytest.raises(UnavailableError, match="another of its tasks has failed"):
        query.commit([other], 0)
    with pytest.raises(UnavailableError, match="another of its tasks has failed"):
        query.task(planned, 0, B)
    assert values(stage.cluster, *places) == []


def test_a_transaction_that_can_only_be_aborted_is_tried_again(
    stage: Stage, servers: str, topic: str
) -> None:
    (place,) = make_topic(stage.cluster, topic)
    query = Query(servers, topic=topic, sinkid=topic)

    def abortable(answer: Any) -> Any:
        (told,) = answer.topics
        (partition,) = told.partitions
        code = ErrorCode.transaction_abortable
        return replace(
            answer,
            topics=(replace(told, partitions=(replace(partition, error_code=code),)),),
        )

    stage.road.rewrites[TXN_OFFSET_COMMIT] = [abortable]
    with pytest.raises(UnavailableError, match="the batch must be written again"):
        query.run(0, A)
    query.run(0, A)
    assert values(stage.cluster, place) == ["a1", "a2"]


def test_speculation_is_refused(stage: Stage, servers: str, topic: str) -> None:
    make_topic(stage.cluster, topic)
    query = Query(servers, topic=topic, sinkid=topic)
    with pytest.raises(SparkJobError, match=r"set spark\.speculation=false"):
        query.task(query.plan(), 0, A, spark_speculation="true")


def test_a_zombie_task_writes_nothing_that_is_seen(stage: Stage, servers: str, topic: str) -> None:
    places = make_topic(stage.cluster, topic, 2)
    query = Query(servers, topic=topic, sinkid=topic)
    stale = query.plan()
    query.run(0, A)
    with pytest.raises(FencedError, match="stop one of the two"):
        query.task(stale, 0, B)
    assert values(stage.cluster, *places) == ["a1", "a2"]


@pytest.mark.parametrize("newest", [True, False])
def test_a_zombie_driver_neither_commits_nor_aborts(
    stage: Stage, servers: str, topic: str, newest: bool
) -> None:
    places = make_topic(stage.cluster, topic, 2)
    old, new = (Query(servers, topic=topic, sinkid=topic) for _ in range(2))
    stale = old.task(_protocol(old.plan(), newest=newest), 0, A)
    current = new.task(_protocol(new.plan(), newest=newest), 0, A)
    with pytest.raises(FencedError, match="stop one of the two"):
        old.commit([stale], 0)
    old.abort([stale], 0)
    new.commit([current], 0)
    with pytest.raises(FencedError):
        old.commit([stale], 0)
    assert values(stage.cluster, *places) == ["a1", "a2"]


def test_the_old_protocol_does_the_same(stage: Stage, servers: str, topic: str) -> None:
    places = make_topic(stage.cluster, topic, 2)
    query = Query(servers, topic=topic, sinkid=topic)
    for batch_id in (0, 0, 1):
        planned = _protocol(query.plan(), newest=False)
        query.commit([query.task(planned, batch_id, A), query.task(planned, batch_id, B)], batch_id)
    assert values(stage.cluster, *places) == ["a1", "a2", "a1", "a2", "b1", "b1"]
    planned = _protocol(query.plan(), newest=False)
    query.abort([query.task(planned, 2, A)], 2)
    with pytest.raises(UnavailableError):
        query.commit([query.task(planned, 2, A, attempt=1)], 2)
    query.run(2, B)
    assert values(stage.cluster, *places) == ["a1", "a2", "a1", "a2", "b1", "b1", "b1"]


def _protocol(planned: bytes, *, newest: bool) -> bytes:
    writer = pickle.loads(planned)
    writer.begun = replace(writer.begun, newest=newest)
    return pickle.dumps(writer)


def test_a_batch_that_takes_too_long_says_what_to_raise() -> None:
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 20}
    with Broker(config=often) as broker:
        query = Query(
            broker.bootstrap_servers,
            topic="t",
            sinkid="slow",
            **{"kafka.transaction.timeout.ms": "50"},
        )
        cluster = cluster_of(query.options.connection)
        (place,) = make_topic(cluster, "t")
        planned = query.plan()
        message = query.task(planned, 0, A)
        while describe_transaction(cluster, "barnabas-spark-slow").state != "CompleteAbort":
            pass
        with pytest.raises(UnavailableError, match=r"raise kafka\.transaction\.timeout\.ms"):
            query.commit([message], 0)
        with pytest.raises(UnavailableError, match=r"raise kafka\.transaction\.timeout\.ms"):
            query.task(planned, 0, A)
        query.abort([message], 0)
        assert values(cluster, place) == []


def test_a_longer_timeout_than_the_broker_allows_is_told(
    stage: Stage, servers: str, topic: str
) -> None:
    query = Query(servers, topic=topic, sinkid=topic, **{"kafka.transaction.timeout.ms": "900001"})
    with pytest.raises(SparkJobError, match=r"lower kafka\.transaction\.timeout\.ms"):
        query.plan()


def test_a_broker_that_restarts_in_mid_batch_does_no_harm(tmp_path: Path) -> None:
    with Stage(memory=False) as stage:
        servers = f"127.0.0.1:{stage.road.port}"
        places = make_topic(stage.cluster, "t", 2)
        query = Query(servers, topic="t", sinkid=str(tmp_path))
        planned = query.plan()
        first = query.task(planned, 0, A)
        stage.stop()
        starter = stage.start_once_missed()
        second = query.task(planned, 0, B)
        starter.join()
        stage.stop()
        starter = stage.start_once_missed()
        query.commit([first, second], 0)
        starter.join()
        assert values(stage.cluster, *places) == ["a1", "a2", "b1"]
