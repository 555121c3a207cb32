"""Brokers that can not be part of a cluster, or not any more: one sentence says what to do."""

import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from tests.cli.conftest import Run
from tests.failover.foreground import Foreground, started

from barnabas.node.local_cluster import free_ports
from barnabas.world.zookeeper_server import ZooKeeperServer

READY = r"is ready at 127\.0\.0\.1:(\d+)"
SESSION_MS = 2_000


class Place:
    """Brokers with their directories, below one path of a ZooKeeper."""

    def __init__(self, directory: Path, connect: str) -> None:
        self.directory = directory
        self.connect = connect
        self.chroot = f"/{uuid.uuid4().hex}"
        (directory / "broker.toml").write_text("")

    def orders(self, number: int, **more: str) -> list[str]:
        """The command that starts a broker."""
        settings = {
            "node.id": str(number),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.directory / f"data-{number}"),
            "zookeeper.connect": f"{self.connect}{self.chroot}",
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "zookeeper.connection.timeout.ms": "2000",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        sets = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
        return ["broker", "--config", str(self.directory / "broker.toml"), *sets]

    def running(self, number: int, **more: str) -> AbstractContextManager[Foreground]:
        return started(*self.orders(number, **more))

    def files(self) -> set[Path]:
        return set(self.directory.rglob("*"))


@pytest.fixture
def place(zookeeper: ZooKeeperServer, tmp_path: Path) -> Place:
    return Place(tmp_path, zookeeper.connect)


Refused = Callable[..., str]


@pytest.fixture
def refused(process: Run) -> Refused:
    """Run what can not work; the sentence that says so."""

    def refused(orders: list[str]) -> str:
        done = process(*orders)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert "Traceback" not in done.stderr
        sentence = done.stderr.splitlines()[-1]
        assert sentence.startswith("barnabas: "), done.stderr
        assert done.stderr.count("barnabas: ") == 1
        return sentence

    return refused


def ended(foreground: Foreground) -> str:
    foreground.process.terminate()
    said = foreground.end()
    assert foreground.process.returncode == 0, said
    return said


def nodes_below(connect: str, path: str) -> list[str]:
    client = KazooClient(connect)
    client.start()
    try:
        return list(client.get_children(path)) if client.exists(path) else []
    finally:
        client.stop()
        client.close()


def test_whose_number_and_whose_directory(place: Place, refused: Refused) -> None:
    with place.running(1) as first:
        port = first.wait_for(READY)[1]
        told = refused(place.orders(1, log_dirs=str(place.directory / "other")))
        assert f"Broker 1 is registered already at 127.0.0.1:{port}" in told
        assert "give this one another node.id, or stop that one" in told
        told = refused(place.orders(1))
        assert "in use by another broker" in told
        assert "log.dirs" in told
        assert first.process.poll() is None
        ended(first)
    told = refused(place.orders(2, log_dirs=str(place.directory / "data-1")))
    assert "belongs to broker 1" in told
    assert "start it with node.id=1" in told


def test_whose_store(place: Place, refused: Refused) -> None:
    with place.running(1) as broker:
        broker.wait_for(READY)
        ended(broker)
    before = place.files()
    place.chroot = f"/{uuid.uuid4().hex}"
    told = refused(place.orders(1))
    assert "belongs to cluster" in told
    assert "the cluster's store is empty; let the broker use the store of that cluster" in told
    assert nodes_below(place.connect, place.chroot) == []
    with place.running(2) as other:
        other.wait_for(READY)
        told = refused(place.orders(1))
        assert "and the store to cluster" in told
        ended(other)
    assert before <= place.files()
    assert (place.directory / "data-1" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("path", "data", "sentence"),
    [
        ("brokers/ids/0", b'{"host":"h","port":9092,"version":5}', "Broker 0 of this store is not"),
        ("cluster/id", b'{"version":"1","id":"kafka"}', "The store belongs to another system"),
    ],
)
def test_the_store_of_a_kafka(
    place: Place, refused: Refused, path: str, data: bytes, sentence: str
) -> None:
    client = KazooClient(place.connect)
    client.start()
    client.create(f"{place.chroot}/{path}", data, makepath=True)
    client.stop()
    client.close()
    before = nodes_below(place.connect, place.chroot)
    told = refused(place.orders(1))
    assert sentence in told
    assert "zookeeper.connect=host:port/path" in told
    assert nodes_below(place.connect, place.chroot) == before


def test_nobody_at_the_address_of_zookeeper(place: Place, refused: Refused) -> None:
    place.connect = f"127.0.0.1:{free_ports(1)[0]}"
    told = refused(place.orders(1))
    assert "nobody listens there. Start it (barnabas zookeeper), or correct zookeeper.conn" in told


def test_a_zookeeper_that_goes_and_comes_back_and_one_that_forgot_everything(
    tmp_path: Path, run: Run, refused: Refused
) -> None:
    port = free_ports(1)[0]
    server = ZooKeeperServer(tmp_path / "zookeeper", port=port, sync=False)
    server.start()
    place = Place(tmp_path, server.connect)
    try:
        with place.running(1) as broker:
            bootstrap = f"127.0.0.1:{broker.wait_for(READY)[1]}"
            assert run("topic", "create", "t", "-b", bootstrap).returncode == 0
            assert run("produce", "t", "-b", bootstrap, stdin="a\n").returncode == 0
            server.kill()
            broker.wait_for(r"Out of touch .*See whether ZooKeeper runs")
            time.sleep(SESSION_MS / 1000)  # Its session would be over if anybody could say so.
            assert broker.process.poll() is None
            server.start()
            broker.wait_for("In touch with the cluster's store again")
            assert run("produce", "t", "-b", bootstrap, stdin="b\n").returncode == 0
            # Told when it was lost and when it was back, not every second in between.
            assert len(broker.said) < 10, broker.said

            server.kill()
            server = ZooKeeperServer(tmp_path / "empty", port=port, sync=False)
            server.start()
            said = broker.end()
            assert broker.process.returncode == 1
            assert "Traceback" not in said
            sentence = broker.said[-1]
            assert f"The broker stopped: ZooKeeper at {place.connect}" in sentence
            assert "it is another one than before, or has lost what it knew" in sentence
        assert (place.directory / "data-1" / "t-0" / f"{0:020}.log").stat().st_size > 0
        told = refused(place.orders(1))
        assert "the cluster's store is empty" in told
        assert nodes_below(place.connect, place.chroot) == []
    finally:
        server.kill()


def test_an_address_that_nobody_can_reach(place: Place, run: Run) -> None:
    """The broker itself can not know it: whoever tries to copy from it says so."""
    nowhere = free_ports(1)[0]
    replicas = {"default_replication_factor": "2"}
    unreachable = replicas | {"advertised_listeners": f"PLAINTEXT://127.0.0.1:{nowhere}"}
    with place.running(1, **replicas) as one:
        bootstrap = f"127.0.0.1:{one.wait_for(READY)[1]}"
        # (The first one is the controller, which is asked for topics.)
        with place.running(2, **unreachable) as two:
            two.wait_for(READY)
            made = run("topic", "create", "t", "--partitions", "2", "-b", bootstrap)
            assert made.returncode == 0, made.stderr
            one.wait_for(
                rf"broker 2 can not be reached at 127\.0\.0\.1:{nowhere} \(.+\); "
                r"if it runs, correct its advertised\.listeners"
            )
            assert [each.process.poll() for each in (one, two)] == [None, None]
