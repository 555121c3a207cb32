"""Three brokers on a ZooKeeper of their own, as a benchmark sees them."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.bench import admin, host, subject
from barnabas.bench.load import WAIT_S_MAX
from barnabas.model.errors import BarnabasError
from barnabas.world.zookeeper_ensemble import ZooKeeperEnsemble

BROKERS: Final = (1, 2, 3)
_POLL_S: Final = 0.001


@dataclass(frozen=True)
class Members:
    """The brokers of a cluster, seen at the one that leads."""

    leader: subject.Subject
    pids: tuple[int, ...]
    """Of all brokers, the leader's first."""

    def cpu_seconds(self) -> list[float]:
        """What each broker has used so far."""
        return [host.cpu_seconds(pid) for pid in self.pids]


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[Members]:
    """One broker without ZooKeeper."""
    with subject.running(folder) as server:
        yield Members(server, () if server.pid is None else (server.pid,))


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Members]:
    """Three brokers and a ZooKeeper."""
    with contextlib.ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperEnsemble(folder / "zookeeper"))
        ports, pids = [], []
        for number in BROKERS:
            port = subject.free_port()
            argv = (
                *subject.DEFAULT_ARGV,
                "--set", f"node.id={number}",
                "--set", f"zookeeper.connect={zookeeper.connect}",
            )  # fmt: skip
            filled = subject.fill(argv, port, folder / f"broker-{number}")
            child = stack.enter_context(subject.process(filled, folder / f"broker-{number}.log"))
            ports.append(port)
            pids.append(child.pid)
        for port in ports:
            admin.wait_until_ready("127.0.0.1", port)
        yield Members(subject.Subject("127.0.0.1", ports[0], pids[0]), tuple(pids))


class Replicated:
    """A place to write to: a new topic of one partition each time, led by the first broker."""

    def __init__(self, members: Members, replicas: Sequence[int]) -> None:
        self.members = members
        self._replicas = tuple(replicas)

    @property
    def copies(self) -> int:
        """How often everything is written."""
        return max(len(self._replicas), 1)

    def fresh(self) -> str:
        """An empty topic."""
        topic, server = admin.new_topic_name(), self.members.leader
        configs = {"min.insync.replicas": str(min(2, self.copies))}
        admin.create_topic(server.host, server.port, topic, configs, replicas=self._replicas)
        return topic

    def drop(self, topic: str) -> None:
        """Give its disk space back."""
        admin.delete_topic(self.members.leader.host, self.members.leader.port, topic)

    def wait_until_everywhere(self, topic: str, end_offset: int) -> float:
        """Wait until all in sync have everything below `end_offset`; how many seconds that took."""
        server, began = self.members.leader, time.perf_counter()
        while time.perf_counter() - began < WAIT_S_MAX:
            if admin.high_watermark(server.host, server.port, topic, end_offset) >= end_offset:
                return time.perf_counter() - began
            time.sleep(_POLL_S)
        raise BarnabasError(f"The followers have not caught up in {WAIT_S_MAX} s.")
