"""What happens to the log itself between planning and reading, or in the midst of reading."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.spark.source_read.reading_world import (
    consumed,
    new_topic,
    options_for,
    produce,
    quiet,
    read,
    rows_of,
)

from barnabas.link.broker import Broker as BrokerLink
from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.connection import Server
from barnabas.spark.cluster.links import Links
from barnabas.spark.errors import DataLostError, NotAnsweredError
from barnabas.spark.places import Place, Span
from barnabas.spark.source import reading
from barnabas.spark.source.fetching import Fetcher
from barnabas.spark.source.reading import read_spans
from barnabas.testing import Broker
from barnabas.wire.records.batch import walk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Broker]:
    """On disk, and on one port through all restarts."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    quick_cleaning = {"log.cleaner.backoff.ms": 50}
    with Broker(memory=False, data=tmp_path / "data", port=port, config=quick_cleaning) as broker:
        yield broker


def test_a_broker_restarted_in_the_midst_of_reading(
    disk: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "ROWS_MAX", 500)
    servers = disk.bootstrap_servers
    topic = new_topic(servers)
    produce(servers, topic, [b"%d" % n for n in range(10_000)], batch_num_messages=100)
    options = options_for(servers, topic, fetch_bytes=20_000)
    batches = []
    for number, batch in enumerate(read_spans(options, [Span(Place(topic, 0), 0, 10_000)])):
        batches.append(batch)
        if number in (2, 5):
            disk.stop()
            disk.start()
    assert [int(row.value or b"") for row in rows_of(batches)] == list(range(10_000))


def test_a_broker_that_does_not_come_back(disk: Broker) -> None:
    servers = disk.bootstrap_servers
    topic = new_topic(servers)
    produce(servers, topic, [b"x"])
    options = options_for(servers, topic)
    assert len(read(options, (topic, 0, 0, 1))) == 1
    disk.stop()
    impatient = replace(options, connection=replace(options.connection, patience_s=0.5))
    for asked in (impatient, impatient):
        with pytest.raises(NotAnsweredError, match="no broker can be reached"):
            read(asked, (topic, 0, 0, 1))


class Away(Links):
    """No broker can be reached, which it may take long to find out."""

    tried = 0

    def to(self, server: Server) -> BrokerLink:
        self.tried += 1
        raise TimeoutError(f"{server} does not answer")


def test_a_broker_that_is_away_is_tried_once_for_all_its_partitions(disk: Broker) -> None:
    servers = disk.bootstrap_servers
    topic = new_topic(servers, partitions=20)
    options = options_for(servers, topic)
    links = Away(options.connection)
    spans = [Span(Place(topic, partition), 0, 1) for partition in range(20)]
    fetcher = Fetcher(cluster_of(options.connection), options, spans)
    fetcher._find_leaders(links)
    assert links.tried == 1
    assert len(fetcher._astray) == 20


def test_records_deleted_between_planning_and_reading(disk: Broker) -> None:
    servers = disk.bootstrap_servers
    topic = new_topic(servers)
    produce(servers, topic, [b"%d" % n for n in range(100)])
    admin = AdminClient(quiet(servers))
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 60)]).values()
    deleted.result()
    with pytest.raises(DataLostError, match=f"Offsets 10 to 59 of {topic}-0 are gone"):
        read(options_for(servers, topic), (topic, 0, 10, 90))
    with pytest.raises(DataLostError, match=r"Offsets 10 to 29 .* begins at 60 now"):
        read(options_for(servers, topic), (topic, 0, 10, 30))
    lenient = options_for(servers, topic, fail_on_data_loss=False)
    assert [row.offset for row in read(lenient, (topic, 0, 10, 90))] == list(range(60, 90))
    assert read(lenient, (topic, 0, 10, 30)) == []


def test_a_topic_deleted_between_planning_and_reading(disk: Broker) -> None:
    servers = disk.bootstrap_servers
    gone, kept = new_topic(servers), new_topic(servers)
    for topic in (gone, kept):
        produce(servers, topic, [b"x"])
    both = [(gone, 0, 0, 1), (kept, 0, 0, 1)]
    assert len(read(options_for(servers, kept), *both)) == 2
    admin = AdminClient(quiet(servers))
    admin.delete_topics([gone])[gone].result()
    with pytest.raises(DataLostError, match=f"{gone}-0 does not exist any more"):
        read(options_for(servers, kept), *both)
    lenient = options_for(servers, kept, fail_on_data_loss=False)
    assert [row.topic for row in read(lenient, *both)] == [kept]


def test_a_batch_damaged_on_the_brokers_disk(disk: Broker) -> None:
    servers = disk.bootstrap_servers
    topic = new_topic(servers)
    for n in range(10):
        produce(servers, topic, [b"%d" % (n * 3 + i) for i in range(3)], linger_ms=100)
    disk.stop()
    log = Path(disk.data) / f"{topic}-0" / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    position = next(at for at, header in walk(content) if header.last_offset >= 13)
    content[position + 70] ^= 1
    log.write_bytes(content)
    disk.start()
    with pytest.raises(DataLostError, match=f"offset 12 of {topic}-0 is damaged"):
        read(options_for(servers, topic), (topic, 0, 0, 30))
    lenient = options_for(servers, topic, fail_on_data_loss=False)
    rows = read(lenient, (topic, 0, 0, 30))
    assert [row.offset for row in rows] == [n for n in range(30) if not 12 <= n < 15]
    assert [row.offset for row in read(lenient, (topic, 0, 13, 17))] == [15, 16]
    assert read(lenient, (topic, 0, 12, 15)) == []


def test_a_log_that_lost_its_end(disk: Broker) -> None:
    servers = disk.bootstrap_servers
    topic = new_topic(servers)
    produce(servers, topic, [b"%d" % n for n in range(10)], batch_num_messages=1)
    disk.stop()
    log = Path(disk.data) / f"{topic}-0" / f"{0:020}.log"
    content = log.read_bytes()
    cut = next(at for at, header in walk(content) if header.base_offset == 6)
    log.write_bytes(content[:cut])
    for other in log.parent.iterdir():
        if other != log:
            other.unlink()
    for marker in (
        Path(disk.data) / ".kafka_cleanshutdown",
        Path(disk.data) / "recovery-point-offset-checkpoint",
    ):
        marker.unlink(missing_ok=True)
    disk.start()
    options = options_for(servers, topic, poll_timeout_s=1.0)
    with pytest.raises(DataLostError, match="ends at offset 6"):
        read(options, (topic, 0, 0, 10))
    with pytest.raises(DataLostError, match="ends at offset 6"):
        read(options, (topic, 0, 8, 10))


def test_a_compacted_topic(disk: Broker) -> None:
    """Gaps at the start, in the midst and at the end of spans, and whole spans that are gaps."""
    servers = disk.bootstrap_servers
    topic = new_topic(
        servers,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        internal_segment_bytes="4096",
    )
    producer = Producer(quiet(servers, batch_num_messages=20, linger_ms=20))
    for n in range(2_000):
        producer.produce(topic, b"%d" % n, b"key %d" % (n % 7 if n % 50 else n), partition=0)
    assert producer.flush(30) == 0
    deadline = time.monotonic() + 60
    while len(expected := consumed(servers, topic)) > 1_000:
        assert time.monotonic() < deadline, "the broker does not compact"
        time.sleep(0.05)
    options = options_for(servers, topic)
    # Compaction may go on, but what is latest of its key stays: those are compared.
    latest = {row.key: row for row in expected}
    rows = read(options, (topic, 0, 0, 2_000))
    assert {row.key: row for row in rows} == latest
    assert len({row.offset for row in rows}) == len(rows) < 2_000
    for start in range(0, 2_000, 100):
        part = read(options, (topic, 0, start, start + 100))
        assert {row.key for row in latest.values() if start <= row.offset < start + 100} <= {
            row.key for row in part
        }
        assert all(start <= row.offset < start + 100 for row in part)
