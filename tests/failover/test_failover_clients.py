"""Clients of three libraries write and read with acks=all while brokers and ZooKeeper die.

Nothing that was acknowledged is lost, nothing is there twice, the order stays, and no client is
told of an error that it can not get over by itself.
"""

from collections.abc import Iterator

import pytest
from tests.failover.libraries import LIBRARIES
from tests.failover.stage import begin_traffic, wait_for
from tests.failover.traffic import Traffic

from barnabas.testing import Cluster

TOPIC = f"numbers-{next(iter(LIBRARIES))}"


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Traffic]:
    traffic = begin_traffic(cluster, "numbers")
    yield traffic
    traffic.stop()


@pytest.fixture
def traffic(cluster: Cluster, running: Traffic) -> Iterator[Traffic]:
    """Going on before, during and after each test."""
    cluster.wait_until_in_sync()
    yield running
    running.wait_for_more()


def leader(cluster: Cluster) -> int:
    found = cluster.leader_of(TOPIC)
    assert found is not None
    return found


def kill_and_bring_back(cluster: Cluster, traffic: Traffic, number: int) -> None:
    cluster.kill(number)
    traffic.wait_for_more()
    cluster.start(number)
    traffic.wait_for_more()


def test_a_leader_is_killed_and_comes_back(cluster: Cluster, traffic: Traffic) -> None:
    kill_and_bring_back(cluster, traffic, leader(cluster))


def test_the_controller_is_killed_and_comes_back(cluster: Cluster, traffic: Traffic) -> None:
    before = cluster.controller()
    assert before is not None
    kill_and_bring_back(cluster, traffic, before)
    assert cluster.controller() not in (None, before)


def test_a_follower_is_killed_and_comes_back(cluster: Cluster, traffic: Traffic) -> None:
    leads = leader(cluster)
    (follower, *_) = [each for each in (1, 2, 3) if each not in (leads, cluster.controller())]
    kill_and_bring_back(cluster, traffic, follower)


def test_a_leader_is_back_before_anybody_has_missed_it(cluster: Cluster, traffic: Traffic) -> None:
    leads = leader(cluster)
    cluster.kill(leads)
    cluster.start(leads)


def test_every_broker_is_restarted_cleanly(cluster: Cluster, traffic: Traffic) -> None:
    for number in (1, 2, 3):
        cluster.stop(number)
        traffic.wait_for_more()
        cluster.start(number)
        cluster.wait_until_in_sync()


def test_a_leader_stands_still_and_goes_on(cluster: Cluster, traffic: Traffic) -> None:
    leads = leader(cluster)
    cluster.pause(leads)
    try:
        # Clients wait for its answers, some for a minute: they can not know that none will come.
        wait_for(lambda: cluster.leader_of(TOPIC) not in (None, leads))
    finally:
        cluster.resume(leads)
    # It does not know what happened meanwhile, and must not take itself for the leader.
    traffic.wait_for_more()


def test_zookeeper_is_killed_and_comes_back(cluster: Cluster, traffic: Traffic) -> None:
    (server,) = cluster.zookeeper.servers
    server.kill()
    server.start()
    server.wait_ready()


def test_all_brokers_are_killed_at_once(cluster: Cluster, traffic: Traffic) -> None:
    for number in (1, 2, 3):
        cluster.kill(number)
    for number in (1, 2, 3):
        cluster.start(number)


def test_everything_that_was_sent_is_there_once(cluster: Cluster, running: Traffic) -> None:
    running.end()
