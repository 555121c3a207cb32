"""Kafka's own Java client through the death of a leader, of the controller, and clean restarts."""

import shutil

import pytest
from tests.compat import real_kafka
from tests.compat.clients.java_program import java_command
from tests.failover.java import java_reader, java_writer
from tests.failover.stage import make_topic
from tests.failover.traffic import Traffic

from barnabas.testing import Cluster

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        not real_kafka.available() or shutil.which("javac") is None, reason="needs javac"
    ),
]


def test_a_java_producer_and_consumer_go_on(cluster: Cluster) -> None:
    java_command("Numbers")  # Compiled here, once: both clients would do it at the same time.
    make_topic(cluster, "numbers-java")
    servers = cluster.bootstrap_servers
    traffic = Traffic()
    traffic.add("java", "numbers-java", java_writer(servers), java_reader(servers))
    try:
        traffic.wait_for_more()
        for who in ("leader", "controller"):
            cluster.wait_until_in_sync()
            leader, controller = cluster.leader_of("numbers-java"), cluster.controller()
            number = leader if who == "leader" else controller
            assert number is not None
            cluster.kill(number)
            traffic.wait_for_more()
            cluster.start(number)
            traffic.wait_for_more()
        for number in (1, 2, 3):
            cluster.wait_until_in_sync()
            cluster.stop(number)
            traffic.wait_for_more()
            cluster.start(number)
        traffic.end()
    finally:
        traffic.stop()
    assert traffic.notes["java"].sent > 500
