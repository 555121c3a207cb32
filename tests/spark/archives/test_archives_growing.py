"""A topic into an archive: all of it, once, whatever it holds and whatever is lost."""

import errno
import json
import shutil
import threading
import time
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.spark.archives.archives_world import (
    PARTITIONS,
    add_partitions,
    archived_once,
    asked_for,
    delete_before,
    in_files,
    in_topic,
    write,
    write_in_transaction,
)
from tests.spark.source_read.reading_world import Row, consumed, new_topic, quiet

from barnabas.spark.archives import archiving
from barnabas.spark.archives.archiving import Progress, archive, group_of
from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.generations import current
from barnabas.spark.archives.layout import ArchiveError, Range
from barnabas.spark.archives.opening import GapError
from barnabas.spark.archives.placing import place
from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.places import Place
from barnabas.spark.tables import durable
from barnabas.spark.tables.checkpoints import version_name
from barnabas.spark.tables.log import LOG_FOLDER

pytestmark = pytest.mark.timeout(600)
WAIT_S = 240.0


def test_a_batch_whose_commit_failed_too_late_is_in(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails when the batch counts already, but nobody was told that it does."""
    topic = new_topic(servers, PARTITIONS)
    write(servers, topic, range(300))
    first_batch = tmp_path / LOG_FOLDER / version_name(1)
    failed: list[str] = []

    def fail_once(folder: str) -> None:
        if first_batch.exists() and not failed:
            failed.append(folder)
            raise OSError(errno.EIO, "Input/output error")
        durable.sync_file(folder)

    monkeypatch.setattr(durable, "sync_folder", fail_once)
    contents = archive(spark, asked_for(servers, topic, tmp_path), restarts=1)
    assert failed == [str(tmp_path / LOG_FOLDER)]
    assert in_files(contents) == in_topic(servers, topic)


def test_an_archive_holds_what_a_consumer_reads(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = new_topic(servers, PARTITIONS)
    write(servers, topic, range(1_000))
    write_in_transaction(servers, topic, range(1_000, 1_300), commit=False)
    asked = asked_for(servers, topic, tmp_path / "with [odd] *name*")
    contents, told = archived_once(spark, asked)
    assert in_files(contents) == in_topic(servers, topic)
    assert [told[-1].total, told[-1].lag] == [1_000, 0]

    # Only an aborted transaction more: offsets without records are archived, too.
    write_in_transaction(servers, topic, range(1_300, 1_330), commit=False)
    contents, _ = archived_once(spark, asked)
    places = [Place(topic, partition) for partition in range(PARTITIONS)]
    cluster = cluster_of(asked.connection())
    ends = {place.partition: Range(0, end) for place, end in _ends(cluster, places).items()}
    assert contents.ranges == ends

    write_in_transaction(servers, topic, range(1_330, 1_600), commit=True)
    add_partitions(servers, topic, PARTITIONS + 1)
    write(servers, topic, range(1_600, 2_000), PARTITIONS + 1)
    contents, told = archived_once(spark, asked)
    everything = in_topic(servers, topic, PARTITIONS + 1)
    assert in_files(contents) == everything
    assert [told[-1].total, contents.records] == [1_670, 1_670]
    # Several batches were merged into one file a partition.
    assert all(len(contents.files(partition)) == 1 for partition in contents.ranges)
    # The group shows that nothing is left to do.
    committed = cluster.committed_offsets(group_of(contents), None, stable=True)
    assert {place: offset for place, (offset, _) in committed.items()} == _ends(
        cluster, [*places, Place(topic, PARTITIONS)]
    )

    _check_readers(spark, contents, everything)


def _ends(cluster: object, places: list[Place]) -> dict[Place, int]:
    return cluster.latest(places, committed=True)  # type: ignore[attr-defined,no-any-return]


def _check_readers(spark: SparkSession, contents: Contents, everything: list[Row]) -> None:
    """Spark, Delta's own library and DuckDB see the same rows."""
    frame = contents.frame(spark)
    assert frame.columns == list(contents.frame(spark, {}).columns)
    assert frame.count() == len(everything)
    part = contents.frame(spark, {0: (10, 20), 2: (0, 5), 9: (0, 100)})
    found = sorted((row.partition, row.offset) for row in part.collect())
    wanted = [(row.partition, row.offset) for row in everything]
    assert found == [
        place for place in wanted if (place[0] == 0 and 10 <= place[1] < 20) or
        (place[0] == 2 and place[1] < 5)
    ]  # fmt: skip
    table = DeltaTable(contents.folder)
    arrow = table.to_pyarrow_table()
    assert arrow.num_rows == len(everything)
    counted = (
        duckdb.connect()
        .execute('SELECT count(DISTINCT (partition, "offset")) FROM arrow')
        .fetchone()
    )
    assert counted == (len(everything),)


def test_an_archive_grows_as_the_topic_does(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = new_topic(servers, PARTITIONS, message_timestamp_type="LogAppendTime")
    write(servers, topic, range(100))
    stop = threading.Event()
    told: list[Progress] = []
    asked = asked_for(servers, topic, tmp_path / "a", once=False, every_ms=0, start="latest")
    running = threading.Thread(
        target=archive, args=(spark, asked), kwargs={"tell": told.append, "stop": stop}
    )
    running.start()
    _wait_for((tmp_path / "a" / "_delta_log").exists)
    for first in range(100, 1_000, 50):
        write(servers, topic, range(first, first + 50))
        wanted = first - 50
        _wait_for(lambda wanted=wanted: bool(told) and told[-1].total >= wanted)
    with pytest.raises(ArchiveError, match=r"Another process \(pid \d+\) archives into"):
        archive(spark, asked)
    stop.set()
    running.join(WAIT_S)
    assert not running.is_alive()
    contents = Contents(asked.folder)
    new = [row for row in in_topic(servers, topic) if row.offset >= contents.starts[row.partition]]
    assert in_files(contents)[: len(new)] == new
    assert contents.records == 900
    # Eight small files at a time were merged on the way.
    assert all(len(contents.files(partition)) < 14 for partition in contents.ranges)


def _wait_for(condition: object) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_compaction_left_out_is_covered(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = new_topic(
        servers,
        1,
        cleanup_policy="compact",
        internal_segment_bytes="4096",
        min_cleanable_dirty_ratio="0.01",
    )
    producer = Producer(quiet(servers, linger_ms=0, batch_num_messages=5))
    for n in range(300):
        producer.produce(topic, key=b"%d" % (n % 3), value=b"value %d" % n)
    producer.flush(60)
    _wait_for(lambda: len(consumed(servers, topic)) < 150)
    contents, _ = archived_once(spark, asked_for(servers, topic, tmp_path / "a"))
    rows = in_files(contents)
    assert contents.ranges == {0: Range(0, 300)}
    assert {row.key: row.value for row in rows} == {
        b"%d" % (n % 3): b"value %d" % n for n in range(297, 300)
    }
    assert len(rows) < 300


def test_a_batch_that_is_done_again_is_in_or_not(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, PARTITIONS)
    asked = asked_for(servers, topic, tmp_path / "a")
    write(servers, topic, range(300))

    def dies_before_the_commit(*arguments: object) -> list[object]:
        place(*arguments)  # type: ignore[arg-type]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archiving, "place", dies_before_the_commit)
    with pytest.raises(Exception, match="No space left on device"):
        archived_once(spark, asked)
    assert Contents(asked.folder).records == 0
    monkeypatch.setattr(archiving, "place", place)
    archived_once(spark, asked)

    write(servers, topic, range(300, 600))
    told_before_dying: list[Progress] = []

    def dies_after_the_commit(progress: Progress) -> None:
        told_before_dying.append(progress)
        raise ArchiveError("The batch is in, and Spark does not know.")

    with pytest.raises(ArchiveError, match="Spark does not know"):
        archive(spark, asked, tell=dies_after_the_commit, restarts=0)
    assert Contents(asked.folder).records == 600
    contents, told = archived_once(spark, asked)
    assert in_files(contents) == in_topic(servers, topic)
    # Spark ran the batch again, and it was left alone.
    assert [len(told_before_dying), told] == [1, []]


def test_a_lost_checkpoint_is_made_again_where_the_archive_ends(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = new_topic(servers, PARTITIONS)
    asked = asked_for(servers, topic, tmp_path / "a")
    write(servers, topic, range(300))
    archived_once(spark, asked)
    older = tmp_path / "older"
    shutil.copytree(tmp_path / "a" / "_checkpoint", older)
    write(servers, topic, range(300, 500))
    archived_once(spark, asked)
    # Put back from a copy, it does not fit; and one that is emptied is none.
    shutil.rmtree(tmp_path / "a" / "_checkpoint")
    shutil.copytree(older, tmp_path / "a" / "_checkpoint")
    assert current(Contents(asked.folder), PARTITIONS).number == 1
    (tmp_path / "a" / "_checkpoint" / "0").mkdir(parents=True)
    write(servers, topic, range(500, 700))
    contents, _ = archived_once(spark, asked)
    assert in_files(contents) == in_topic(servers, topic)


def test_lost_records_are_named_and_accepted_only_on_request(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = new_topic(servers, 1)
    asked = asked_for(servers, topic, tmp_path / "a")
    write(servers, topic, range(100), 1)
    archived_once(spark, asked)
    write(servers, topic, range(100, 200), 1)
    delete_before(servers, topic, 0, 150)
    with pytest.raises(GapError, match=rf"Offsets 100 to 149 of {topic}-0 are gone.*--accept-gap"):
        archived_once(spark, asked)
    accepting = asked_for(servers, topic, tmp_path / "a", accept_gap=True)
    contents, _ = archived_once(spark, accepting)
    assert [row.offset for row in in_files(contents)] == [*range(100), *range(150, 200)]
    assert [contents.ranges, contents.gaps] == [{0: Range(0, 200)}, {0: (Range(100, 150),)}]
    assert contents.frame(spark, {0: (90, 160)}).count() == 20
    # The gap stays what it is, and neighbours are not merged across it.
    contents, _ = archived_once(spark, asked)
    assert contents.gaps == {0: (Range(100, 150),)}
    assert len(contents.files(0)) == 2


def test_records_that_are_lost_while_a_batch_waits_are_noticed(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, 1)
    asked = asked_for(servers, topic, tmp_path / "a")
    write(servers, topic, range(100), 1)
    archived_once(spark, asked)
    write(servers, topic, range(100, 200), 1)

    def retention_comes(*arguments: object) -> object:
        delete_before(servers, topic, 0, 150)
        return current(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(archiving, "current", retention_comes)
    with pytest.raises(GapError, match="Offsets 100 to 149"):
        archived_once(spark, asked)
    contents, _ = archived_once(spark, asked_for(servers, topic, tmp_path / "a", accept_gap=True))
    assert contents.gaps == {0: (Range(100, 150),)}
    assert contents.records == 150


def test_a_topic_of_the_same_name_is_another_topic(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    topic = new_topic(servers, 1)
    asked = asked_for(servers, topic, tmp_path / "a")
    write(servers, topic, range(10), 1)
    archived_once(spark, asked)
    admin = AdminClient(quiet(servers))
    admin.delete_topics([topic])[topic].result()
    _make(servers, topic)
    write(servers, topic, range(20), 1)
    with pytest.raises(ArchiveError, match=r"deleted and made again.*0 from 10 on.*another folder"):
        archived_once(spark, asked)
    assert Contents(asked.folder).records == 10


def _make(servers: str, topic: str) -> None:
    admin = AdminClient(quiet(servers))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()


def test_settings_say_whose_archive_it_is(
    servers: str, tmp_path: Path, spark: SparkSession
) -> None:
    topic = new_topic(servers, 2)
    contents, told = archived_once(spark, asked_for(servers, topic, tmp_path / "a", start="latest"))
    assert [contents.topic, contents.records, told[0].records] == [topic, 0, 0]
    assert contents.owner == f"archive of the topic {topic}"
    assert json.loads(json.dumps(dict(contents.starts))) == {"0": 0, "1": 0}
    assert contents.topic_id
    assert contents.cluster_id
