"""The cluster that test suites start: real processes, to be killed and brought back."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.model.errors import BarnabasError
from barnabas.node.local_cluster import LocalCluster
from barnabas.testing import Cluster

QUIET = {"log_level": 0}


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def make_events(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic("events", 1)])["events"].result(30)
    wait_for(lambda: cluster.leader_of("events") is not None)
    cluster.wait_until_in_sync()


def produced(cluster: Cluster, value: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    producer.produce("events", value, partition=0)
    assert producer.flush(60) == 0


def consumed(cluster: Cluster, count: int) -> list[bytes | str | None]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody", **QUIET}
    )
    try:
        consumer.assign([TopicPartition("events", 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=60)]
    finally:
        consumer.close()


def test_the_fixture_is_a_cluster_that_survives_its_brokers(barnabas_cluster: Cluster) -> None:
    cluster = barnabas_cluster
    assert cluster.running == [1, 2, 3]
    make_events(cluster)
    assert cluster.in_sync("events") == [1, 2, 3]
    produced(cluster, "before")
    leader = cluster.leader_of("events")
    assert leader is not None
    cluster.kill(leader)
    assert leader not in cluster.running
    produced(cluster, "while it is away")
    assert cluster.leader_of("events") not in (None, leader)
    cluster.start(leader)
    cluster.wait_until_in_sync()
    assert consumed(cluster, 2) == [b"before", b"while it is away"]
    assert cluster.controller() in (1, 2, 3)
    # Those who followed it say that it can not be reached.
    assert f"copying from broker {leader} failed" in "".join(map(cluster.log_of, (1, 2, 3)))


def test_with_one_broker_left_offsets_are_not_entrusted_to_it_alone(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        make_events(cluster)
        cluster.stop(2)
        cluster.stop(3)
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "early", **QUIET}
        )
        try:
            place = TopicPartition("events", 0, 7)
            with pytest.raises(KafkaException):  # There is no coordinator yet.
                consumer.committed([place], timeout=3)
            cluster.start(2)
            cluster.start(3)

            def committed() -> bool:
                try:
                    consumer.commit(offsets=[place], asynchronous=False)
                except KafkaException:
                    return False
                return True

            wait_for(committed)
        finally:
            consumer.close()
        cluster.wait_until_in_sync()
        assert cluster.in_sync("__consumer_offsets") == [1, 2, 3]
    assert (tmp_path / "broker-3" / ".kafka_cleanshutdown").exists()


def test_a_cluster_that_does_not_start_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(*_: object) -> None:
        (entry,) = tmp_path.iterdir()
        (entry / "zookeeper").mkdir()
        raise BarnabasError("There is no Java.")

    monkeypatch.setattr(LocalCluster, "start", fail)
    with pytest.raises(BarnabasError, match="no Java"), Cluster():
        pass
    assert list(tmp_path.iterdir()) == []
