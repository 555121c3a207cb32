"""Groups and transactions are carried through the death of the broker that coordinates them."""

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.failover.copying import Copier
from tests.failover.groups import PARTITIONS, Member, OffsetsWatch, write_numbers
from tests.failover.libraries import QUIET
from tests.failover.stage import GROUP, TRANSACTION, coordinator_of, make_topic, wait_for

from barnabas.testing import Cluster

CLASSIC: Mapping[str, Any] = {"session.timeout.ms": 45_000}
NEWER: Mapping[str, Any] = {"group.protocol": "consumer"}


def new(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:6]}"


def read_committed(cluster: Cluster, topic: str, partitions: int = PARTITIONS) -> list[list[int]]:
    """Everything that is committed, by partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        | QUIET
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found: list[list[int]] = [[] for _ in range(partitions)]
        ended: set[int] = set()
        while len(ended) < partitions:
            for message in consumer.consume(500, timeout=1.0):
                partition, value = message.partition(), message.value()
                assert partition is not None
                if message.error() is not None:
                    ended.add(partition)
                else:
                    ended.discard(partition)
                    assert value is not None
                    found[partition].append(int(value))
        return found
    finally:
        consumer.close()


def by_partition(numbers: range) -> list[list[int]]:
    return [[n for n in numbers if n % PARTITIONS == each] for each in range(PARTITIONS)]


@pytest.mark.parametrize("settings", [CLASSIC, NEWER], ids=["classic", "consumer"])
def test_a_group_goes_on_when_its_coordinator_is_killed(
    cluster: Cluster, settings: Mapping[str, Any]
) -> None:
    topic, group = new("numbers"), new("group")
    make_topic(cluster, topic, PARTITIONS)
    bootstrap = cluster.bootstrap_servers
    write_numbers(bootstrap, topic, range(200))
    members = [Member(bootstrap, group, topic, settings) for _ in range(2)]
    watch = OffsetsWatch(bootstrap, group, topic)
    for thread in (*members, watch):
        thread.start()
    wait_for(lambda: sum(len(each.taken) for each in members) == 200)
    cluster.wait_until_in_sync()
    killed = coordinator_of(cluster, group, GROUP)
    cluster.kill(killed)
    write_numbers(bootstrap, topic, range(200, 400))
    wait_for(lambda: sum(each.commits for each in members) >= 400)
    assert coordinator_of(cluster, group, GROUP) != killed
    cluster.start(killed)
    write_numbers(bootstrap, topic, range(400, 500))
    wait_for(lambda: sum(each.commits for each in members) >= 500)
    for stopping in (*(each.stopping for each in members), watch.stopping):
        stopping.set()
    for thread in (*members, watch):
        thread.join(60)
    assert watch.ask()
    assert [*members[0].problems, *members[1].problems, *watch.problems] == []
    taken = Counter(number for each in members for _, number in each.taken)
    assert taken == Counter(range(500))  # Nothing lost, nothing doubled.
    assert all(each.taken for each in members)
    assert watch.latest == dict.fromkeys(range(PARTITIONS), 125)
    cluster.wait_until_in_sync()


@pytest.mark.parametrize("ends_well", [True, False], ids=["commit", "abort"])
def test_a_transaction_goes_on_when_its_coordinator_is_killed(
    cluster: Cluster, ends_well: bool
) -> None:
    topic, name = new("numbers"), new("txn")
    make_topic(cluster, topic, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name} | QUIET
    )
    producer.init_transactions(60)

    def write(numbers: range) -> None:
        for number in numbers:
            producer.produce(topic, str(number), partition=number % PARTITIONS)

    producer.begin_transaction()
    write(range(100))
    producer.flush(60)
    cluster.wait_until_in_sync()
    killed = coordinator_of(cluster, name, TRANSACTION)
    cluster.kill(killed)
    write(range(100, 200))
    if ends_well:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)
    producer.begin_transaction()
    write(range(200, 300))
    producer.commit_transaction(60)
    cluster.start(killed)
    expected = range(300) if ends_well else range(200, 300)
    found = read_committed(cluster, topic)
    assert found == by_partition(expected)
    cluster.wait_until_in_sync()


def test_a_copy_is_exact_when_both_coordinators_are_killed(cluster: Cluster) -> None:
    source, target, name = new("source"), new("target"), new("copier")
    make_topic(cluster, source, PARTITIONS)
    make_topic(cluster, target, PARTITIONS)
    write_numbers(cluster.bootstrap_servers, source, range(1000))
    copier = Copier(cluster.bootstrap_servers, source, target, name)
    copier.start()
    for kind, reached in ((TRANSACTION, 100), (GROUP, 400)):
        wait_for(lambda reached=reached: copier.copied >= reached or not copier.is_alive())  # type: ignore[misc]
        cluster.wait_until_in_sync()
        killed = coordinator_of(cluster, name, kind)
        cluster.kill(killed)
        wait_for(lambda kind=kind, killed=killed: coordinator_of(cluster, name, kind) != killed)  # type: ignore[misc]
        cluster.start(killed)
    copier.join(60)
    assert copier.problems == []
    found = read_committed(cluster, target)
    assert found == by_partition(range(1000))
    cluster.wait_until_in_sync()
