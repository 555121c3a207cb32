"""What is refused before Spark is started: each in one sentence."""

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.spark.archives.archives_world import asked_for, delete_before, write
from tests.spark.source_read.reading_world import new_topic, quiet

from barnabas.spark.archives.archiving import Asked, check
from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.layout import ArchiveError
from barnabas.spark.archives.opening import TopicNow, locked, open_archive
from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.errors import UnknownTopicError
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.snapshot import Shape
from barnabas.testing import Broker


def made(asked: Asked) -> Contents:
    topic = check(asked)
    return open_archive(TableLog(asked.folder), topic, asked.start, accept_gap=False)


def test_folders_that_are_no_archive_of_the_topic(
    servers: str, shared_broker: Broker, tmp_path: Path
) -> None:
    topic, other = new_topic(servers), new_topic(servers)
    archive = tmp_path / "archive"
    made(asked_for(servers, topic, archive))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "photo.jpg").write_text("")
    (tmp_path / "file").write_text("")
    (tmp_path / "table").mkdir()
    TableLog(str(tmp_path / "table")).create(Shape('{"type":"struct","fields":[]}'))

    def refused(sentence: str, name: str, asked_topic: str = topic, **more: object) -> None:
        with pytest.raises(ArchiveError, match=sentence):
            check(asked_for(servers, asked_topic, tmp_path / name, **more))

    refused("full holds photo.jpg and no archive: name an empty folder", "full")
    refused("file is no folder", "file")
    refused("can not be made", "file/within")
    refused("a table that is no archive", "table")
    refused(f"is the archive of the topic {topic}, not of {other}", "archive", other)
    refused("--codec lzma: it is zstd, snappy, none", "new", codec="lzma")
    refused("--from yesterday: it is earliest, latest or an offset", "new", start="yesterday")
    refused("--from 7: .* ends at 0", "new", start="7")
    with locked(str(archive)):
        refused(r"Another process \(pid \d+\) archives into .*: stop it first", "archive")
    with pytest.raises(UnknownTopicError, match="There is no topic nowhere"):
        check(asked_for(servers, "nowhere", archive))
    there = shared_broker.bootstrap_servers
    _make_there(there, topic)
    with pytest.raises(ArchiveError, match=r"on the cluster .*, and .* is the cluster"):
        check(asked_for(there, topic, archive))
    with pytest.raises(ArchiveError, match="There is no archive in"):
        Contents(str(tmp_path / "nothing"))


def _make_there(servers: str, topic: str) -> None:
    admin = AdminClient(quiet(servers))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()


def test_where_a_new_archive_begins(servers: str, tmp_path: Path) -> None:
    topic = new_topic(servers, 2)
    write(servers, topic, range(20), 2)
    assert dict(made(asked_for(servers, topic, tmp_path / "e")).starts) == {0: 0, 1: 0}
    latest = made(asked_for(servers, topic, tmp_path / "l", start="latest"))
    assert dict(latest.starts) == {0: 10, 1: 10}
    assert [latest.end(0), latest.end(7), dict(latest.ranges)] == [10, 0, {}]
    at = made(asked_for(servers, topic, tmp_path / "n", start="4"))
    assert dict(at.starts) == {0: 4, 1: 4}
    delete_before(servers, topic, 1, 6)
    gone = asked_for(servers, topic, tmp_path / "g", start="4")
    with pytest.raises(ArchiveError, match=rf"Offsets 4 to 5 of {topic}-1 are gone"):
        check(gone)
    # Nothing was made that would have to begin there from now on.
    assert dict(made(replace(gone, start="earliest")).starts) == {0: 0, 1: 6}


def test_a_log_that_ends_before_the_archive_is_another_one(servers: str, tmp_path: Path) -> None:
    topic = new_topic(servers, 1)
    asked = asked_for(servers, topic, tmp_path / "a")
    now = TopicNow.ask(cluster_of(asked.connection()), topic)
    log = TableLog(asked.folder)
    (tmp_path / "a").mkdir()
    kept = TopicNow(topic, servers, now.id, now.cluster_id, {0: 5}, {0: 9})
    open_archive(log, kept, "0", accept_gap=True)
    with pytest.raises(
        ArchiveError, match=rf"goes up to offset 4 of {topic}-0, whose log ends at 0"
    ):
        check(asked)
