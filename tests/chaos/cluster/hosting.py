"""Three brokers and three ZooKeeper servers, each on a host of its own."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.chaos.cluster.network import Loopback, Network

from barnabas.node.local_broker import LocalBroker
from barnabas.node.local_cluster import LocalCluster, at_home, free_ports
from barnabas.testing import Cluster
from barnabas.world.zookeeper_ensemble import ZooKeeperEnsemble
from barnabas.world.zookeeper_server import ZooKeeperServer

BROKERS: Final = (1, 2, 3)
SERVERS: Final = (1, 2, 3)
HOSTS: Final = tuple(f"broker-{n}" for n in BROKERS) + tuple(f"zookeeper-{n}" for n in SERVERS)
SESSION_S: Final = 6.0
SMALL_DISK: Final = BROKERS[-1]
"""The broker whose disk is small enough to be filled."""
_SMALL_BYTES: Final = 512 * 1024 * 1024
SETTINGS: Final = {
    "allow.insecure": "true",
    # Whoever asks for a topic too early must not be the one who makes it.
    "auto.create.topics.enable": "false",
    "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
    "replica.lag.time.max.ms": "6000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "log.cleaner.backoff.ms": "1000",
}


class HostedBroker(LocalBroker):
    """A broker on its host; `program` is what Python is told to run, if not what is installed."""

    def on(self, network: Network, program: Sequence[str] | None) -> "HostedBroker":
        """Where it is started."""
        self._network = network
        if program is not None:
            self.program = program
        return self

    def start(self) -> None:
        host = f"broker-{self.number}"
        with self._network.inside(host):
            super().start()
        self._network.runs(host, self.pid)


class HostedServer(ZooKeeperServer):
    """A ZooKeeper server on its host."""

    network: Network

    def start(self) -> None:
        host = f"zookeeper-{self.number}"
        with self.network.inside(host):
            super().start()
        self.network.runs(host, self.pid)


class HostedEnsemble(ZooKeeperEnsemble):
    """Servers at addresses of their own."""

    def __init__(self, directory: Path, network: Network) -> None:
        super().__init__(directory, len(SERVERS))
        ports = dict.fromkeys(SERVERS, (2181, 2888, 3888))
        if isinstance(network, Loopback):
            free = iter(free_ports(3 * len(SERVERS)))
            ports = {number: (next(free), next(free), next(free)) for number in SERVERS}
        hosts = {number: network.addresses[f"zookeeper-{number}"] for number in SERVERS}
        # Each listens at its own ports, and is found by others where the network has them.
        found = {
            n: [network.before(f"zookeeper-{n}", port) for port in each]
            for n, each in ports.items()
        }
        servers = []
        for number in SERVERS:
            peers = {
                n: "{}:{}:{}".format(hosts[n], *(ports if n == number else found)[n][1:])
                for n in SERVERS
            }
            server = HostedServer(
                directory / f"server-{number}", port=ports[number][0], host=hosts[number],
                number=number, peers=peers,
            )  # fmt: skip
            server.network = network
            servers.append(server)
        self.servers = servers
        self._found = ",".join(f"{hosts[n]}:{found[n][0]}" for n in SERVERS)

    @property
    def connect(self) -> str:
        """Where brokers find them."""
        return self._found


class HostedCluster(LocalCluster):
    """As `LocalCluster`, each broker at an address of its own."""

    def __init__(
        self, directory: Path, network: Network, program: Sequence[str] | None,
        hear: Callable[[int, str], None],
    ) -> None:  # fmt: skip
        self.directory = directory
        self.zookeeper = HostedEnsemble(directory / "zookeeper", network)
        alone = isinstance(network, Loopback)
        ports = free_ports(len(BROKERS)) if alone else [9092] * len(BROKERS)
        common = at_home(len(BROKERS)) | SETTINGS | {"zookeeper.connect": self.zookeeper.connect}
        brokers: dict[int, LocalBroker] = {}
        for number, port in zip(BROKERS, ports, strict=True):
            host = network.addresses[f"broker-{number}"]
            found = network.before(f"broker-{number}", port)
            own = {
                "node.id": str(number),
                "log.dirs": str(directory / f"broker-{number}"),
                "listeners": f"PLAINTEXT://{host}:{port}",
                "advertised.listeners": f"PLAINTEXT://{host}:{found}",
            }
            heard = lambda line, number=number: hear(number, line)  # noqa: E731
            broker = HostedBroker(number, (host, found), common | own, heard)
            brokers[number] = broker.on(network, program)
        self.brokers: Mapping[int, LocalBroker] = brokers

    def _check_ports(self) -> None:
        """The addresses are those of other hosts: nobody else is there."""


class Rig(Cluster):
    """The cluster that is to be broken, with `Cluster`'s eyes."""

    def __init__(
        self, data: Path, network: Network, program: Sequence[str] | None = None
    ) -> None:  # fmt: skip
        super().__init__(len(BROKERS), data=data, zookeeper_servers=len(SERVERS))
        self.network = network
        self.has_small_disk = False
        self._local = HostedCluster(data, network, program, self._write_down)

    @property
    def brokers(self) -> Mapping[int, LocalBroker]:
        """Their processes."""
        return self._made().brokers

    def address_of(self, number: int) -> tuple[str, int]:
        """Where a broker listens."""
        return self.brokers[number].address

    def dead(self) -> list[int]:
        """Brokers that do not run."""
        return [number for number in BROKERS if number not in self.running]

    @property
    def logs(self) -> Mapping[int, Path]:
        """What each broker says, in all its lives."""
        return {number: self._log_path(number) for number in BROKERS}

    def stop_cleanly(self, number: int) -> str | None:
        """Stop a broker in an orderly way; in words, what was not in order."""
        broker = self.brokers[number]
        if not broker.is_running:
            return f"broker {number} had ended before it was stopped"
        code = broker.stop()
        return None if code == 0 else f"broker {number} did not stop cleanly: exit code {code}"

    # A disk that can be filled

    def make_small_disk(self) -> None:
        """Before the first start; where that is not allowed, the disk stays large."""
        directory = self.data / f"broker-{SMALL_DISK}"
        directory.mkdir(parents=True)
        options = f"size={_SMALL_BYTES},mode=0755"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "barnabas-chaos", str(directory)],
            capture_output=True,
            check=False,
        )
        self.has_small_disk = done.returncode == 0

    def fill_disk(self) -> None:
        """Not a byte is left."""
        with self._ballast.open("wb") as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        os.write(file.fileno(), bytes(size))
                except OSError:
                    continue

    def free_disk(self) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.data / f"broker-{SMALL_DISK}" / "ballast"

    def unmount(self) -> None:
        """The small disk is no more; what is on it is copied to a real one."""
        if self.has_small_disk:
            directory = self.data / f"broker-{SMALL_DISK}"
            kept = directory.with_name(f"{directory.name}-copied")
            self.end()  # Whoever still runs there would keep it busy.
            try:
                shutil.copytree(directory, kept)
            finally:
                unmount_below(self.data)
            directory.rmdir()
            kept.rename(directory)
            self.has_small_disk = False

    def end(self) -> None:
        """Whatever runs, runs no more."""
        self._made().kill()


def unmount_below(directory: Path) -> None:
    """Small disks of this and earlier runs."""
    directory = directory.resolve()  # As mounts are told.
    for line in Path("/proc/mounts").read_text().splitlines():
        kind, where = line.split()[:2]
        if kind == "barnabas-chaos" and Path(where).is_relative_to(directory):
            for _ in range(50):
                done = subprocess.run(["umount", where], capture_output=True, check=False)
                if done.returncode == 0:
                    break
                time.sleep(0.1)
            else:
                print(f"{where} can not be unmounted", file=sys.stderr)
