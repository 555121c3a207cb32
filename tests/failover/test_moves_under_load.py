"""A topic is moved from broker to broker while clients write and read it: nothing that was
acknowledged is lost, nothing is there twice, and the order stays. Real brokers on a real ZooKeeper;
kafka-python asks for the moves."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import TopicPartition  # type: ignore[import-untyped]
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]
from tests.failover.stage import begin_traffic, wait_for
from tests.failover.traffic import PARTITIONS, Traffic

from barnabas.testing import Cluster

LIBRARY = "confluent-kafka"
TOPIC = f"moved-{LIBRARY}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config={"log.segment.delete.delay.ms": 100}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Traffic]:
    traffic = begin_traffic(cluster, "moved", [LIBRARY])
    yield traffic
    traffic.stop()


@pytest.fixture
def traffic(running: Traffic) -> Iterator[Traffic]:
    """Going on before, during and after each test."""
    running.wait_for_more()
    yield running
    running.wait_for_more()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield client
    client.close()


def ask(admin: Any, *replicas: int) -> None:
    """Have all partitions of the topic moved to these brokers, each led by another."""
    wanted = {}
    for number in range(PARTITIONS):
        turn = number % len(replicas)
        wanted[TopicPartition(TOPIC, number)] = [*replicas[turn:], *replicas[:turn]]
    assert set(admin.alter_partition_reassignments(wanted).values()) == {None}


def arrived(cluster: Cluster, *replicas: int) -> bool:
    return all(
        cluster.in_sync(TOPIC, number) == sorted(replicas)
        and cluster.leader_of(TOPIC, number) in replicas
        for number in range(PARTITIONS)
    )


def folders(cluster: Cluster) -> dict[int, int]:
    """How many partitions each broker has something of, under whatever name."""
    return {
        number: len(list((cluster.data / f"broker-{number}").glob(f"{TOPIC}-*")))
        for number in (1, 2, 3)
    }


def move(cluster: Cluster, admin: Any, *replicas: int) -> None:
    ask(admin, *replicas)
    wait_for(lambda: not admin.list_partition_reassignments())
    wait_for(lambda: arrived(cluster, *replicas))
    wait_for(
        lambda: (
            folders(cluster) == {each: PARTITIONS if each in replicas else 0 for each in (1, 2, 3)}
        )
    )


def test_a_topic_goes_round_while_clients_write(
    cluster: Cluster, traffic: Traffic, admin: Any
) -> None:
    for replicas in ((1, 2), (2, 3), (3, 1), (1, 2, 3)):
        move(cluster, admin, *replicas)
        traffic.wait_for_more()


@pytest.mark.slow
def test_a_move_goes_on_when_the_controller_and_its_target_are_killed(
    cluster: Cluster, traffic: Traffic, admin: Any
) -> None:
    move(cluster, admin, 1, 2)
    controller = cluster.controller()
    assert controller is not None
    for victim in (3, controller):
        ask(admin, 3, 1, 2)
        cluster.kill(victim)
        traffic.wait_for_more()
        cluster.start(victim)
        wait_for(lambda: arrived(cluster, 1, 2, 3), 120)
        move(cluster, admin, 1, 2)


def test_everything_is_there_once_and_in_order(running: Traffic) -> None:
    running.end()
