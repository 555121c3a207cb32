"""A real consumer with `client.rack` reads at the follower of its own rack, and goes on reading
when that follower, or the leader, dies. Real brokers on a real ZooKeeper."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.failover.libraries import QUIET
from tests.failover.stage import make_topic

from barnabas.testing import Cluster

RACKS = ("north", "south", "west")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with Cluster(3, racks=RACKS, config={"replica.selector.class": selector}) as cluster:
        yield cluster


class Reader:
    """Reads one partition, and notes from which broker it does."""

    def __init__(self, cluster: Cluster, topic: str, rack: str) -> None:
        self.topic, self.broker = topic, -1
        self.values: list[bytes | None] = []
        self._consumer = Consumer(
            QUIET
            | {"bootstrap.servers": cluster.bootstrap_servers, "group.id": rack}
            | {"client.rack": rack, "enable.auto.commit": False, "auto.offset.reset": "error"}
            | {"isolation.level": "read_committed", "topic.metadata.refresh.interval.ms": 1000}
            | {"statistics.interval.ms": 100, "stats_cb": self._note}
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def _note(self, statistics: str) -> None:
        partition = json.loads(statistics)["topics"][self.topic]["partitions"]["0"]
        self.broker = partition["broker"]

    def until(self, count: int, broker: int | None = None) -> None:
        """Until so many are read, from that broker at last."""
        deadline = time.monotonic() + 120
        while len(self.values) < count or (broker is not None and self.broker != broker):
            assert time.monotonic() < deadline, (len(self.values), self.broker)
            for message in self._consumer.consume(100, 0.1):
                assert message.error() is None, message.error()
                self.values.append(message.value())

    def close(self) -> None:
        self._consumer.close()


def write(cluster: Cluster, topic: str, first: int, count: int) -> list[bytes]:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    producer = Producer(QUIET | servers | {"enable.idempotence": True})
    values = [b"%06d" % number for number in range(first, first + count)]
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    return values


@pytest.mark.slow
def test_a_consumer_reads_in_its_own_rack_whoever_dies(cluster: Cluster) -> None:
    topic = "near"
    make_topic(cluster, topic, 1)
    leader = cluster.leader_of(topic)
    assert leader is not None
    near = next(number for number in (1, 2, 3) if number != leader)
    written = write(cluster, topic, 0, 500)
    reader = Reader(cluster, topic, RACKS[near - 1])
    at_home = Reader(cluster, topic, RACKS[leader - 1])
    reader.until(500, broker=near)
    at_home.until(500, broker=leader)
    assert reader.values == at_home.values == written
    at_home.close()
    written += write(cluster, topic, 500, 500)
    reader.until(1000, broker=near)
    # The follower dies: the leader serves, or whoever leads then.
    cluster.kill(near)
    written += write(cluster, topic, 1000, 100)
    reader.until(1100)
    cluster.start(near)
    cluster.wait_until_in_sync()
    # The leader dies: somebody else sends the reader on.
    cluster.kill(leader)
    written += write(cluster, topic, 1100, 100)
    reader.until(1200)
    assert reader.values == written, "each once, in order"
    reader.close()
    cluster.start(leader)
