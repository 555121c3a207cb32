"""Who a sink is, which batch it has committed, and the source offsets that go with a batch."""

import json
from pathlib import Path

import pytest
from tests.spark.cluster.stage import Stage, make_topic
from tests.spark.exactly_once.driving import (
    Query,
    arrow,
    batch_writer,
    rows_for,
    task_context,
    values,
)

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.sink.exactly_once import ExactlyOnceWriter
from barnabas.spark.sink.guard import describe_transaction
from barnabas.spark.sink.marker import name_of_query_sink
from barnabas.spark.sink.options import parse

A = rows_for(0, "a1", "a2")


def sink_of(checkpoint: str) -> str:
    given = {"kafka.bootstrap.servers": "h:1", "checkpointlocation": checkpoint}
    return name_of_query_sink(parse(given, streaming=True))


def test_a_checkpoint_has_one_name_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spellings = [f"{tmp_path}/ck", f"{tmp_path}/ck/", f"file:{tmp_path}/ck", "ck", "./ck/"]
    assert len({sink_of(each) for each in [*spellings, f"file://{tmp_path}/ck"]}) == 1
    others = [f"{tmp_path}/ck2", "s3a://bucket/ck", "hdfs://a/ck", "hdfs://b/ck"]
    assert len({sink_of(each) for each in [*spellings, *others]}) == 5
    assert sink_of("hdfs://a/ck/") == sink_of("hdfs://a/ck")


def test_without_a_checkpoint_the_sink_must_be_named() -> None:
    with pytest.raises(SparkJobError, match="or sinkId"):
        Query("h:1", topic="t").writer()
    assert Query("h:1", topic="t", sinkid="mine").writer().sink == "barnabas-spark-mine"


def test_another_query_may_not_use_the_sink(stage: Stage, servers: str, topic: str) -> None:
    (place,) = make_topic(stage.cluster, topic)
    Query(servers, topic=topic, sinkid=topic).run(3, A)
    stranger = Query(servers, topic=topic, sinkid=topic, query_id="another")
    with pytest.raises(SparkJobError, match="set the option sinkId to a new name"):
        stranger.run(0, A)
    assert values(stage.cluster, place) == ["a1", "a2"]


def test_a_checkpoint_older_than_the_marker_is_refused(
    stage: Stage, servers: str, topic: str
) -> None:
    make_topic(stage.cluster, topic)
    query = Query(servers, topic=topic, sinkid=topic)
    query.run(4, A)
    with pytest.raises(
        SparkJobError, match="another driver works on its checkpoint, or it is older"
    ):
        query.run(3, A)


def test_topics_come_from_a_column_and_each_keeps_the_marker(
    stage: Stage, servers: str, topic: str
) -> None:
    one, two = f"{topic}-1", f"{topic}-2"
    place, other = make_topic(stage.cluster, one) + make_topic(stage.cluster, two)
    query = Query(servers, sinkid=topic)
    query.run(0, rows_for(0, "x", topic=one), rows_for(0, "y", topic=two))
    query.run(1, rows_for(0, "z", topic=two))
    assert values(stage.cluster, place, other) == ["x", "y", "z"]
    group = f"barnabas-spark-{topic}"
    committed = stage.cluster.committed_offsets(group, None, stable=True)
    assert {at: offset for at, (offset, _) in committed.items()} == {place: 0, other: 1}
    # The highest one counts, wherever the next batch goes.
    assert query.run(1, rows_for(0, "z", topic=one))[0].written is None
    query.run(2, rows_for(0, "w", topic=one))
    assert query.run(2, rows_for(0, "w", topic=two))[0].written is None


def test_a_batch_without_rows_costs_no_transaction(stage: Stage, servers: str, topic: str) -> None:
    make_topic(stage.cluster, topic)
    query = Query(servers, topic=topic, sinkid=topic)
    query.run(0, [], [])
    assert describe_transaction(stage.cluster, f"barnabas-spark-{topic}").state == "Empty"
    assert stage.cluster.committed_offsets(f"barnabas-spark-{topic}", None, stable=True) == {}


# Source offsets


def journal(checkpoint: Path, batch_id: int, *lines: str) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    text = "\n".join(["v1", '{"batchWatermarkMs":0}', *lines])
    (checkpoint / "offsets" / str(batch_id)).write_text(text)


def test_source_offsets_are_committed_with_the_rows_or_not_at_all(
    stage: Stage, servers: str, topic: str, tmp_path: Path
) -> None:
    (source,) = make_topic(stage.cluster, f"{topic}-in")
    make_topic(stage.cluster, topic)
    options = {"topic": topic, "checkpointlocation": str(tmp_path), "sourcegroup": f"{topic}-group"}
    query = Query(servers, **options)

    def committed() -> dict[Place, int]:
        found = stage.cluster.committed_offsets(f"{topic}-group", None, stable=True)
        return {place: offset for place, (offset, _) in found.items()}

    journal(tmp_path, 0, json.dumps({source.topic: {"0": 7}}))
    message = query.task(query.plan(), 0, A)
    assert committed() == {}
    query.commit([message], 0)
    assert committed() == {source: 7}
    journal(tmp_path, 1, json.dumps({source.topic: {"0": 9}}))
    stale = query.task(query.plan(), 1, A)
    query.plan()
    with pytest.raises(SparkJobError):
        query.commit([stale], 1)
    assert committed() == {source: 7}
    # Nothing to write is nothing that could be written twice, but the source has moved on.
    query.run(1, [])
    assert committed() == {source: 9}


def test_a_batch_of_the_same_number_that_reads_other_offsets_is_not_skipped(
    stage: Stage, servers: str, topic: str, tmp_path: Path
) -> None:
    make_topic(stage.cluster, topic)
    query = Query(servers, topic=topic, checkpointlocation=str(tmp_path))
    journal(tmp_path, 0, '{"in": {"0": 7}}')
    query.run(0, A)
    assert query.run(0, A)[0].written is None
    journal(tmp_path, 0, '{"in": {"0": 8}}')
    with pytest.raises(SparkJobError, match="go on with the newest checkpoint"):
        query.run(0, A)


def test_source_offsets_that_can_not_be_committed_are_told(
    stage: Stage, servers: str, topic: str, tmp_path: Path
) -> None:
    (place,) = make_topic(stage.cluster, topic)
    options = {"topic": topic, "sourcegroup": "group", "kafka.default.api.timeout.ms": "300"}
    with pytest.raises(SparkJobError, match="set the option checkpointLocation too"):
        Query(servers, sinkid=topic, **options).writer()
    query = Query(servers, checkpointlocation=str(tmp_path), **options)
    with pytest.raises(SparkJobError, match="give the driver access to the checkpoint"):
        query.run(0, A)
    journal(tmp_path, 0, json.dumps({"elsewhere": {"0": 7}}))
    with pytest.raises(SparkJobError, match="source and sink are on different clusters"):
        query.run(0, A)
    assert values(stage.cluster, place) == []


# Batch writes


def run(writer: ExactlyOnceWriter, *tasks: list[dict[str, object]], query_id: str = "") -> None:
    with task_context(0, None, query_id):
        messages = [writer.write(iter([arrow(rows)])) for rows in tasks]
    writer.commit(messages)
    cluster = cluster_of(writer.options.connection)
    while describe_transaction(cluster, writer.sink).state.startswith("Prepare"):
        pass


def test_a_batch_write_is_one_transaction(stage: Stage, servers: str, topic: str) -> None:
    places = make_topic(stage.cluster, topic, 2)
    run(batch_writer(servers, topic=topic), A, rows_for(1, "b"))
    given_up = batch_writer(servers, topic=topic)
    with task_context():
        message = given_up.write(iter([arrow(A)]))
    given_up.abort([message, None])
    run(batch_writer(servers, topic=topic), A)
    assert values(stage.cluster, *places) == ["a1", "a2", "a1", "a2", "b"]


def test_a_batch_write_that_was_committed_is_not_repeated(
    stage: Stage, servers: str, topic: str
) -> None:
    (place,) = make_topic(stage.cluster, topic)
    for batch_id in ("0", "0", "1", "1", "2"):
        run(batch_writer(servers, topic=topic, sinkid=topic, batchid=batch_id), A, query_id="q")
    assert values(stage.cluster, place) == ["a1", "a2"] * 3
    # By hand, outside of the query, a batch is repeated as it would be inside of it.
    run(batch_writer(servers, topic=topic, sinkid=topic, batchid="2"), A)
    run(batch_writer(servers, topic=topic, sinkid=topic, batchid="3"), A)
    assert values(stage.cluster, place) == ["a1", "a2"] * 4
    with pytest.raises(SparkJobError, match="set the option sinkId to a new name"):
        run(batch_writer(servers, topic=topic, sinkid=topic, batchid="4"), A, query_id="other")


def test_one_batch_is_written_to_several_topics(stage: Stage, servers: str, topic: str) -> None:
    """As foreachBatch does it: each write under the same sinkId and batchId."""
    (one,) = make_topic(stage.cluster, topic)
    (other,) = make_topic(stage.cluster, f"{topic}-other")
    for batch_id in ("0", "0", "1"):
        for place in (one, other):
            sink = batch_writer(servers, topic=place.topic, sinkid=topic, batchid=batch_id)
            run(sink, A, query_id="q")
    assert values(stage.cluster, one) == values(stage.cluster, other) == ["a1", "a2"] * 2


def test_a_write_that_can_not_be_told_from_another_of_its_batch_is_refused(
    stage: Stage, servers: str, topic: str
) -> None:
    (one,) = make_topic(stage.cluster, topic)
    (other,) = make_topic(stage.cluster, f"{topic}-other")
    to_both = [*rows_for(0, "c1", topic=one.topic), *rows_for(0, "c2", topic=other.topic)]
    by_column = {"sinkid": topic, "batchid": "0"}
    for _ in range(2):
        run(batch_writer(servers, **by_column), to_both, query_id="q")
    with pytest.raises(SparkJobError, match="give each write of a batch a sinkId of its own"):
        run(batch_writer(servers, topic=one.topic, **by_column), A, query_id="q")
    assert values(stage.cluster, one, other) == ["c1", "c2"]


def test_a_batch_that_is_older_than_the_marker_is_refused(
    stage: Stage, servers: str, topic: str
) -> None:
    """Nobody knows whether it was written; skipping it could lose its rows."""
    (place,) = make_topic(stage.cluster, topic)
    run(batch_writer(servers, topic=topic, sinkid=topic, batchid="7"), A)
    with pytest.raises(SparkJobError, match=r"has committed batch 7.* batch 5"):
        run(batch_writer(servers, topic=topic, sinkid=topic, batchid="5"), A)
    assert values(stage.cluster, place) == ["a1", "a2"]


def test_a_batch_id_needs_a_sink() -> None:
    with pytest.raises(SparkJobError, match="set both, or neither"):
        batch_writer("h:1", topic="t", batchid="1")
