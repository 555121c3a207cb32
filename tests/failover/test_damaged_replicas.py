"""One of three replicas is damaged on its disk, below the high watermark: noticed, never served,
never elected while it is, and healed. Real brokers on a real ZooKeeper."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.failover.libraries import QUIET
from tests.failover.stage import make_topic, wait_for

from barnabas.testing import Cluster

COUNT = 200
SEGMENT = "00000000000000000000.log"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        "log.scrub.interval.ms": 2000,
        "log.flush.scheduler.interval.ms": 100,
        "log.flush.interval.ms": 100,
        "replica.lag.time.max.ms": 3000,
    }
    with Cluster(3, config=config) as cluster:
        yield cluster


def write(cluster: Cluster, topic: str) -> list[bytes]:
    """Records in batches of a few, each acknowledged by all."""
    producer = Producer(
        QUIET
        | {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0}
        | {"enable.idempotence": True, "batch.num.messages": 10}
    )
    values = [b"%06d-" % number + bytes(100) for number in range(COUNT)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=0)
        if number % 10 == 9:
            assert producer.flush(30) == 0
    return values


def read(cluster: Cluster, topic: str) -> list[bytes]:
    """Everything from the beginning, from whoever leads."""
    consumer = Consumer(
        QUIET
        | {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers"}
        | {"enable.auto.commit": False, "auto.offset.reset": "error"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(found) < COUNT:
        assert time.monotonic() < deadline, len(found)
        for message in consumer.consume(COUNT, 0.5):
            assert message.error() is None, message.error()
            assert message.offset() == len(found)
            found.append(message.value() or b"")
    consumer.close()
    return found


def file_of(cluster: Cluster, number: int, topic: str) -> Path:
    return cluster.data / f"broker-{number}" / f"{topic}-0" / SEGMENT


def flip(path: Path) -> None:
    """Some bits of a batch in the middle, behind the broker's back."""
    with path.open("r+b") as file:
        at = path.stat().st_size // 2
        file.seek(at)
        found = file.read(8)
        file.seek(at)
        file.write(bytes(each ^ 0xFF for each in found))


def is_healed(cluster: Cluster, topic: str, number: int, leader: int) -> bool:
    paths = [file_of(cluster, each, topic) for each in (number, leader)]
    if not all(path.exists() for path in paths) or cluster.in_sync(topic) != [1, 2, 3]:
        return False
    return paths[0].read_bytes() == paths[1].read_bytes()


def kept_aside(cluster: Cluster, number: int, topic: str) -> list[Path]:
    return list((cluster.data / f"broker-{number}").glob(f"{topic}-0.*-damaged"))


def healed(cluster: Cluster, topic: str, number: int, values: list[bytes]) -> None:
    """It was noticed and set aside, and is like the others now; whoever leads, all is right."""
    wait_for(lambda: bool(kept_aside(cluster, number, topic)))
    assert re.search(rf"ERROR +{topic}-0 is damaged: ", cluster.log_of(number))
    other = next(each for each in (1, 2, 3) if each != number)
    wait_for(lambda: is_healed(cluster, topic, number, other))
    cluster.wait_until_in_sync()
    assert read(cluster, topic) == values


@pytest.mark.parametrize("who", ["follower", "leader"])
def test_while_it_runs(cluster: Cluster, who: str) -> None:
    topic = f"running-{who}"
    make_topic(cluster, topic, 1)
    values = write(cluster, topic)
    leader = cluster.leader_of(topic)
    assert leader is not None
    number = leader if who == "leader" else leader % 3 + 1
    flip(file_of(cluster, number, topic))
    # A leader notices when it reads, at the latest; a follower when it looks through its log.
    assert read(cluster, topic) == values
    if who == "leader":
        assert cluster.leader_of(topic) != number
    healed(cluster, topic, number, values)


@pytest.mark.parametrize("who", ["follower", "leader"])
def test_between_stop_and_start(cluster: Cluster, who: str) -> None:
    topic = f"stopped-{who}"
    make_topic(cluster, topic, 1)
    values = write(cluster, topic)
    leader = cluster.leader_of(topic)
    assert leader is not None
    number = leader if who == "leader" else leader % 3 + 1
    cluster.stop(number)
    flip(file_of(cluster, number, topic))
    cluster.start(number)
    assert read(cluster, topic) == values
    healed(cluster, topic, number, values)


def break_structure(path: Path) -> None:
    """Nobody can tell where batches begin and end: the log can not be opened."""
    half = path.stat().st_size // 2
    path.write_bytes(path.read_bytes()[:half] + b"\x7f" * half)


def lose_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def lose_segment(path: Path) -> None:
    path.unlink()


def test_worse_than_a_flipped_bit(cluster: Cluster) -> None:
    """Of several topics one replica each, on the same broker, while it is stopped."""
    harms = {
        break_structure: r"ERROR +break-structure-0 stays offline .* is damaged at byte \d+",
        lose_segment: r"ERROR +lose-segment-0 is damaged: it ends at offset 0, and had been synced",
        # It did not count any more when its broker had stopped, and just begins anew.
        lose_folder: "",
    }
    written = {}
    for harm in harms:
        topic = harm.__name__.replace("_", "-")
        make_topic(cluster, topic, 1)
        written[topic] = write(cluster, topic)
    number = 2
    cluster.stop(number)
    for harm in harms:
        harm(file_of(cluster, number, harm.__name__.replace("_", "-")))
    cluster.start(number)
    for harm, told in harms.items():
        topic = harm.__name__.replace("_", "-")
        assert read(cluster, topic) == written[topic]
        wait_for(lambda: is_healed(cluster, topic, 2, 1))  # noqa: B023
        assert re.search(told, cluster.log_of(number))
        assert read(cluster, topic) == written[topic]


def test_what_was_copied_anew_is_right_when_nobody_else_is_left(cluster: Cluster) -> None:
    topic = "alone"
    make_topic(cluster, topic, 1)
    values = write(cluster, topic)
    leader = cluster.leader_of(topic)
    assert leader is not None
    damaged = leader % 3 + 1
    flip(file_of(cluster, damaged, topic))
    healed(cluster, topic, damaged, values)
    others = [each for each in (1, 2, 3) if each != damaged]
    for each in others:
        cluster.stop(each)
    wait_for(lambda: cluster.leader_of(topic) == damaged)
    assert read(cluster, topic) == values
