"""An archive back into a topic: the same records in the same order, once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.spark.archives.archives_world import (
    BEGAN_MS,
    PARTITIONS,
    archived_once,
    asked_for,
    in_topic,
    write,
    write_in_transaction,
)
from tests.spark.source_read.reading_world import Row, new_topic

from barnabas.spark.archives import replaying
from barnabas.spark.archives.layout import ArchivedFile, ArchiveError
from barnabas.spark.archives.replay_plan import (
    Plan,
    Selection,
    cuts,
    plan_path,
    read_plan,
    write_plan,
)
from barnabas.spark.archives.replaying import Replayed, Replaying, prepare, replay
from barnabas.spark.errors import UnknownTopicError
from barnabas.testing import Broker

pytestmark = pytest.mark.timeout(600)


class Archived:
    """An archive for all tests of replays: of three partitions, with some offsets empty."""

    def __init__(self, servers: str, folder: Path, rows: list[Row]) -> None:
        self.servers = servers
        self.folder = str(folder)
        self.rows = rows

    def asked(self, topic: str, **more: object) -> Replaying:
        return Replaying(self.folder, topic, self.servers, **more)  # type: ignore[arg-type]

    def replayed(self, topic: str, partitions: int = PARTITIONS) -> list[Row]:
        return [
            row._replace(topic="", offset=0) for row in in_topic(self.servers, topic, partitions)
        ]

    def wanted(self) -> list[Row]:
        return [row._replace(topic="", offset=0) for row in self.rows]


@pytest.fixture(scope="module")
def archived(
    spark: SparkSession, archive_broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Archived:
    servers = archive_broker.bootstrap_servers
    topic = new_topic(servers, PARTITIONS)
    write(servers, topic, range(400))
    write_in_transaction(servers, topic, range(400, 430), commit=False)
    write(servers, topic, range(430, 700))
    folder = tmp_path_factory.mktemp("archived") / "orders"
    archived_once(spark, asked_for(servers, topic, folder))
    return Archived(servers, folder, in_topic(servers, topic))


def test_a_replay_that_was_killed_goes_on_where_it_was(
    spark: SparkSession, archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(archived.servers, PARTITIONS + 1)
    asked = archived.asked(topic, chunk_bytes=10_000)
    real, written = write_plan, 0

    def dies(folder: str, plan: Plan) -> None:
        nonlocal written
        written += 1
        if written == 3:
            raise OSError("killed after a chunk was in, before that was noted")
        real(folder, plan)

    monkeypatch.setattr(replaying, "write_plan", dies)
    with pytest.raises(OSError, match="killed"):
        replay(spark, asked)
    monkeypatch.setattr(replaying, "write_plan", real)
    told: list[Replayed] = []
    done = replay(spark, asked, tell=told.append)
    assert [told[0].chunks, done.chunks, done.records] == [2, done.of_chunks, 670]
    assert done.of_chunks > 3
    assert archived.replayed(topic, PARTITIONS + 1) == archived.wanted()

    with pytest.raises(ArchiveError, match=r"is done, about 670 records: give --again"):
        replay(spark, asked)
    replay(spark, archived.asked(topic, again=True))
    assert len(archived.replayed(topic)) == 2 * 670


def test_times_partitions_and_offsets_choose(spark: SparkSession, archived: Archived) -> None:
    servers = archived.servers
    topic = new_topic(servers, PARTITIONS)
    since, until = BEGAN_MS + 100, BEGAN_MS + 300
    asked = archived.asked(topic, since_ms=since, until_ms=until, delivery="at-least-once")
    replay(spark, asked)
    assert archived.replayed(topic) == [
        row for row in archived.wanted() if since <= row.timestamp_ms < until
    ]
    topic = new_topic(servers, PARTITIONS)
    replay(spark, archived.asked(topic, selection=Selection(((1, 50),), (2,))))
    chosen = [
        row
        for row in archived.rows
        if row.partition == 2 or (row.partition == 1 and row.offset >= 50)
    ]
    assert archived.replayed(topic) == [row._replace(topic="", offset=0) for row in chosen]


def test_a_range_of_offsets_is_a_replay_of_its_own(spark: SparkSession, archived: Archived) -> None:
    topic = new_topic(archived.servers, PARTITIONS)

    def asked(first: int, end: int) -> Replaying:
        chosen = Selection(((1, first),), to_offsets=((0, 10), (1, end)))
        return archived.asked(topic, selection=chosen)

    def wanted(*ranges: tuple[int, int, int]) -> list[Row]:
        return [
            row._replace(topic="", offset=0)
            for partition, first, end in ranges
            for row in archived.rows
            if row.partition == partition and first <= row.offset < end
        ]

    # Over the offsets of the transaction that was aborted.
    replay(spark, asked(50, 170))
    assert archived.replayed(topic) == wanted((0, 0, 10), (1, 50, 170))
    with pytest.raises(ArchiveError, match="is done, about"):
        prepare(asked(50, 170))
    replay(spark, asked(50, 171))
    assert archived.replayed(topic) == wanted((0, 0, 10), (0, 0, 10), (1, 50, 170), (1, 50, 171))


def test_keys_decide_where_partitions_differ(spark: SparkSession, archived: Archived) -> None:
    topic = new_topic(archived.servers, 2)
    replay(spark, archived.asked(topic, by_key=True))
    rows = archived.replayed(topic, 2)
    assert len(rows) == 670
    for key in {row.key for row in rows} - {None}:
        theirs = [row for row in rows if row.key == key]
        assert len({row.partition for row in theirs}) == 1
        before = [row.value for row in archived.rows if row.key == key]
        assert [row.value for row in theirs] == before


def test_what_can_not_be_replayed_is_refused(archived: Archived, tmp_path: Path) -> None:
    servers = archived.servers
    topic = new_topic(servers, 2)

    def refused(sentence: str, **more: object) -> None:
        with pytest.raises(ArchiveError, match=sentence):
            prepare(archived.asked(topic, **more))

    refused(r"records of partition 2, and the topic .* has 2 partition\(s\): .*--by-key")
    refused("no partition 7 of", selection=Selection(partitions=(7,)))
    refused("can not be replayed from 100000", selection=Selection(((0, 100_000),)))
    refused("can not be replayed up to 100000", selection=Selection(to_offsets=((0, 100_000),)))
    refused("no partition 7 of", selection=Selection(to_offsets=((7, 1),)))
    refused("has no records of those", selection=Selection(((0, 9),), to_offsets=((0, 9),)))
    refused("has no records of those", since_ms=BEGAN_MS * 2)
    refused("--delivery twice: it is exactly-once or", delivery="twice")
    with pytest.raises(ArchiveError, match="There is no archive in"):
        prepare(Replaying(str(tmp_path), topic, servers))
    with pytest.raises(UnknownTopicError, match="There is no topic nowhere"):
        prepare(archived.asked("nowhere"))
    chosen = archived.asked(topic, by_key=True, selection=Selection(partitions=(0,)))
    plan, _ = prepare(chosen)
    with (
        replaying._only_one(archived.folder, plan.id),
        pytest.raises(ArchiveError, match="Another process is at this replay"),
    ):
        prepare(chosen)
    path = plan_path(archived.folder, plan.id)
    Path(path).write_text("{}")
    with pytest.raises(ArchiveError, match="can not be read"):
        read_plan(archived.folder, plan.id)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 100)), min_size=1, max_size=10),
    st.integers(1, 20),
)
def test_chunks_leave_no_offset_out(sizes: list[tuple[int, int]], count: int) -> None:
    files = []
    at = 5
    for offsets, size in sizes:
        files.append(ArchivedFile("", 0, at, at + offsets, 1, 1, size, 0, 0))
        at += offsets
    ends = cuts(files, count)
    assert len(ends) == count + 1
    assert [ends[0], ends[-1]] == [5, at]
    assert ends == sorted(ends)
