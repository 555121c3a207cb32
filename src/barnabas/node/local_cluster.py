"""A whole cluster on this machine: a real ZooKeeper, and brokers as processes of their own."""

import random
import re
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from barnabas.broker.identity import properties_of
from barnabas.config.layers import AT_HOME
from barnabas.log.names import META_PROPERTIES
from barnabas.model.errors import BarnabasError
from barnabas.node.local_broker import LOOK_S, READY_S_MAX, LocalBroker
from barnabas.world.zookeeper_ensemble import ZooKeeperEnsemble

SESSION_MS: Final = 6_000
"""On one machine nothing is far away; others take over a third as late as by default."""

_ZOOKEEPER: Final = "zookeeper"
_BROKER: Final = "broker-"
_PORTS_QUIET: Final = range(20_000, 32_000)
"""Below those that systems give to outgoing connections. A port among them is not free any more
when a broker comes back to it, or answers itself while the broker is away."""


def at_home(brokers: int) -> dict[str, str]:
    """What brokers of a cluster on one machine do unless told otherwise."""
    replicas = min(3, brokers)
    return {
        **AT_HOME,
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "min.insync.replicas": "2" if brokers >= 3 else "1",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
    }


def brokers_in(directory: Path) -> int:
    """How many brokers of a cluster have their data below a directory; 0: it holds no cluster."""
    if not directory.is_dir():
        return 0
    found = [re.fullmatch(rf"{_BROKER}(\d+)", entry.name) for entry in directory.iterdir()]
    return max((int(match[1]) for match in found if match), default=0)


def pid_file(directory: Path, number: int) -> Path:
    """Where the process of a broker is told that is looked after."""
    return directory / f"{_BROKER}{number}.pid"


def cluster_of(directory: Path, number: int) -> str | None:
    """The cluster that a broker's data belongs to, as far as it says so."""
    path = directory / f"{_BROKER}{number}" / META_PROPERTIES
    if not path.exists():
        return None
    return properties_of(path.read_bytes()).get("cluster.id")


def free_ports(count: int, host: str = "127.0.0.1", without: Collection[int] = ()) -> Sequence[int]:
    """Ports one after another at which nobody listens, and which nobody is given by chance."""
    first = random.choice(_PORTS_QUIET)
    for offset in range(len(_PORTS_QUIET)):
        begin = _PORTS_QUIET[(first + offset) % (len(_PORTS_QUIET) - count)]
        ports = range(begin, begin + count)
        if all(port not in without and _problem_with(host, port) is None for port in ports):
            return ports
    raise BarnabasError(f"There are no {count} free ports one after another on this machine.")


class LocalCluster:
    """`brokers` of them, numbered from 1, each with a folder below `directory`.

    `hear` gets what a broker logs: its number, and a line.
    """

    def __init__(
        self,
        directory: Path,
        ports: Sequence[int],
        *,
        host: str = "127.0.0.1",
        settings: Mapping[str, str] | None = None,
        racks: Sequence[str] = (),
        ensemble: int = 1,
        sync: bool = True,
        hear: Callable[[int, str], None],
        log_level: str = "info",
        pid_files: bool = False,
    ) -> None:
        """`racks`: where the brokers stand, one after another and over again. Not `sync`: for
        tests; then ZooKeeper's data does not survive a power cut.

        `pid_files`: whoever ends is started again, so others may stop a broker to restart it.
        """
        self.directory = directory
        self.zookeeper = ZooKeeperEnsemble(
            directory / _ZOOKEEPER,
            ensemble,
            port=free_ports(ensemble, without=ports)[0],
            sync=sync,
        )
        common = {**at_home(len(ports)), **(settings or {})}
        common["zookeeper.connect"] = self.zookeeper.connect
        self.brokers: Mapping[int, LocalBroker] = {
            number: LocalBroker(
                number,
                (host, port),
                {
                    **common,
                    **_health_of(common, number),
                    **({"broker.rack": racks[(number - 1) % len(racks)]} if racks else {}),
                    "node.id": str(number),
                    "log.dirs": str(directory / f"{_BROKER}{number}"),
                    "listeners": f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}",
                },
                lambda line, number=number: hear(number, line),  # type: ignore[misc]
                log_level,
                pid_file(directory, number) if pid_files else None,
            )
            for number, port in enumerate(ports, 1)
        }

    @property
    def bootstrap_servers(self) -> str:
        """What clients want to know: every broker, whether it runs or not."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self, heed: Callable[[], None] = lambda: None) -> None:
        """Start everything; it serves when this returns.

        Raises BarnabasError when something does not; then nothing runs. `heed` is called again and
        again meanwhile; what it raises ends the start.
        """
        self._check_directory()
        self._check_ports()
        try:
            self.zookeeper.start()
            for broker in self.brokers.values():
                heed()
                broker.start()
            for broker in self.brokers.values():
                _wait_ready(broker, heed)
        except BaseException:
            self.kill()
            raise

    def stop(self, heed: Callable[[], None] = lambda: None) -> None:
        """Stop the brokers in turn, each handing over what it leads, and ZooKeeper after them."""
        for broker in self.brokers.values():
            broker.stop(heed=heed)
        self.zookeeper.stop()

    def kill(self) -> None:
        """End everything as a crash would."""
        for broker in self.brokers.values():
            broker.kill()
        for server in self.zookeeper.servers:
            server.kill()

    def _check_directory(self) -> None:
        if (self.directory / META_PROPERTIES).exists():
            raise BarnabasError(
                f"{self.directory} holds the data of a broker that is alone: choose another "
                "directory for the cluster, or start that broker without --brokers."
            )
        before = brokers_in(self.directory)
        if before > len(self.brokers):
            raise BarnabasError(
                f"{self.directory} holds the data of {before} brokers, and {len(self.brokers)} "
                f"of them may not have all of it: start it with --brokers {before} or more."
            )

    def _check_ports(self) -> None:
        for broker in self.brokers.values():
            host, port = broker.address
            problem = _problem_with(host, port)
            if problem is not None:
                raise BarnabasError(
                    f"Broker {broker.number} can not listen at {broker.bootstrap} ({problem}): "
                    "choose another --port, or stop what listens there."
                )


def _health_of(settings: Mapping[str, str], number: int) -> dict[str, str]:
    """Brokers on one machine can not all be asked at one port: each takes the next."""
    host, colon, port = settings.get("health.listener", "").rpartition(":")
    if not colon or not port.isdigit() or port == "0":
        return {}
    return {"health.listener": f"{host}:{int(port) + number - 1}"}


def _wait_ready(broker: LocalBroker, heed: Callable[[], None]) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while not broker.is_ready(LOOK_S):
        heed()
        if time.monotonic() > deadline:
            raise BarnabasError(
                f"Broker {broker.number} does not serve after {READY_S_MAX:g} s; its log is above."
            )


def _problem_with(host: str, port: int) -> str | None:
    """Why nobody could listen there now."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return None
