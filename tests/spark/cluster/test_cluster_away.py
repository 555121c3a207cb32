"""Brokers that go away and come back, that are somebody else, or that never were there."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.compat.batches import Rec
from tests.spark.cluster.stage import WAIT_S, Stage, connection, make_topic, write

from barnabas.spark.cluster import transactions
from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import NotAnsweredError, SparkJobError
from barnabas.testing import Broker


@pytest.fixture(scope="module")
def durable() -> Iterator[Stage]:
    """On disk, to be stopped and started."""
    with Stage(memory=False) as stage:
        yield stage


def test_everything_survives_a_restart_in_mid_call(durable: Stage) -> None:
    cluster = durable.cluster
    (place,) = make_topic(cluster, "durable")
    write(cluster, place, [Rec(timestamp=1000)] * 3)
    cluster.commit_offsets("durable", {place: 1})
    producer = transactions.init_producer_id(cluster, "durable")
    write(cluster, place, [Rec()], transactional_id="durable", producer=producer, sequence=0)
    calls: list[tuple[Callable[[], object], object]] = [
        (lambda: cluster.partition_counts(["durable"]), {"durable": 1}),
        (lambda: cluster.earliest([place]), {place: 0}),
        (lambda: cluster.latest([place], committed=True), {place: 3}),
        (lambda: cluster.at_time({place: 0}), {place: 0}),
        (lambda: cluster.committed_offsets("durable", None, stable=True), {place: (1, "")}),
        (lambda: cluster.commit_offsets("durable", {place: 2}), None),
        (
            lambda: transactions.active_producer(cluster, place, producer.id),
            (producer.epoch, 0),
        ),
        (
            lambda: transactions.end(cluster, "durable", producer, commit=True),
            (producer.id, producer.epoch + 1),
        ),
    ]
    for call, expected in calls:
        durable.stop()
        starter = durable.start_once_missed()
        assert call() == expected
        starter.join()
    assert cluster.committed_offsets("durable", None, stable=True) == {place: (2, "")}


def test_a_connection_that_was_closed_while_idle(durable: Stage) -> None:
    names = durable.cluster.topic_names(internal=False)
    durable.road.cut()
    assert durable.cluster.topic_names(internal=False) == names


def test_a_broker_on_its_own_port_comes_back() -> None:
    with Broker(memory=False) as first:
        port = first.port
        cluster = Cluster(connection(port))
        make_topic(cluster, "kept")
        first.stop()
        second = Broker(memory=False, data=first.data, port=port)
        starter = threading.Timer(0.5, second.start)
        starter.start()
        try:
            assert cluster.partition_counts(["kept"]) == {"kept": 1}
        finally:
            starter.join()
            second.stop()
            cluster.close()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    cluster = Cluster(connection(port, patience_s=0.2))
    with pytest.raises(NotAnsweredError) as caught:
        cluster.topic_names()
    assert str(caught.value) == (
        "Listing topics was tried for 0 s (kafka.default.api.timeout.ms): no broker can be "
        f"reached (127.0.0.1:{port}: Connection refused), so check that one runs there, that "
        "kafka.bootstrap.servers names it, and that nothing stands between."
    )


def test_one_of_several_servers_is_enough() -> None:
    with Broker() as broker, socket.create_server(("127.0.0.1", 0)) as taken:
        dead = taken.getsockname()[1]
        taken.close()
        servers = f"127.0.0.1:{dead},{broker.bootstrap_servers},no-such-host.invalid:9092"
        for _ in range(5):
            cluster = Cluster(Connection.from_options({"kafka.bootstrap.servers": servers}))
            assert cluster.topic_names() == []
            cluster.close()


def test_a_name_without_an_address_is_told_at_once() -> None:
    options = {"kafka.bootstrap.servers": "no-such-host.invalid:9092"}
    cluster = Cluster(Connection.from_options(options))
    with pytest.raises(SparkJobError, match=r"No address is known for no-such-host\.invalid"):
        cluster.topic_names()


@contextmanager
def stranger(words: bytes) -> Iterator[int]:
    """Somebody who says this to everybody."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(1000)
                peer.sendall(words)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(WAIT_S)


def test_a_web_server_is_told_at_once() -> None:
    with stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        cluster = Cluster(connection(port))
        with pytest.raises(SparkJobError, match=r"does not speak Kafka's protocol") as caught:
            cluster.topic_names()
    assert f"127.0.0.1:{port} answers" in str(caught.value)


def test_a_listener_with_tls_is_told_at_once() -> None:
    with stranger(b"\x15\x03\x03\x00\x02\x02\x28") as port:
        cluster = Cluster(connection(port))
        with pytest.raises(SparkJobError, match=r"kafka\.security\.protocol should be SSL"):
            cluster.topic_names()


def test_somebody_who_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {
            "kafka.bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}",
            "kafka.request.timeout.ms": "50",
            "kafka.default.api.timeout.ms": "100",
        }
        with pytest.raises(NotAnsweredError, match="no answer in time"):
            Cluster(Connection.from_options(options)).topic_names()


def test_an_advertised_address_that_leads_nowhere() -> None:
    config = {"advertised.listeners": "PLAINTEXT://no-such-host.invalid:9092"}
    with Broker(config=config) as broker:
        patient = Cluster(connection(broker.port))
        (place,) = make_topic(patient, "elsewhere")
        patient.close()
        cluster = Cluster(connection(broker.port, patience_s=0.1))
        with pytest.raises(NotAnsweredError, match=r"no-such-host.*\(advertised\.listeners\)"):
            cluster.earliest([place])
        cluster.close()


def test_one_cluster_for_each_connection(stage: Stage) -> None:
    known = connection(stage.road.port)
    assert cluster_of(known) is cluster_of(connection(stage.road.port))
    assert cluster_of(known) is not cluster_of(connection(stage.road.port, patience_s=1))
    cluster_of(known).close()
    assert cluster_of(known).cluster_id()


def test_another_thread_has_its_own(stage: Stage) -> None:
    known = connection(stage.road.port)
    found: list[Cluster] = []
    thread = threading.Thread(target=lambda: found.append(cluster_of(known)))
    thread.start()
    thread.join()
    assert found[0] is not cluster_of(known)


FORKING = """
import os, sys
from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.connection import Connection

connection = Connection.from_options({"kafka.bootstrap.servers": sys.argv[1]})
mine = cluster_of(connection)
names = mine.topic_names()
child = os.fork()
if child == 0:
    theirs = cluster_of(connection)
    os._exit(0 if theirs is not mine and theirs.topic_names() == names else 1)
_, status = os.waitpid(child, 0)
assert status == 0, "the child has a cluster of its own"
assert mine.topic_names() == names, "and leaves its parent's alone"
"""


def test_a_forked_child_has_its_own(stage: Stage) -> None:
    command = [sys.executable, "-c", FORKING, f"127.0.0.1:{stage.road.port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
