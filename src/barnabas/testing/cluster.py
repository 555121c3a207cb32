"""`Cluster`: real brokers on a real ZooKeeper, to be killed, stopped, paused and started again."""

import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from barnabas.model.check import require
from barnabas.node.local_cluster import LocalCluster, free_ports
from barnabas.testing.broker import text_of
from barnabas.testing.metadata import Metadata, PartitionFacts, ask_metadata
from barnabas.world.zookeeper_ensemble import ZooKeeperEnsemble

SESSION_MS: Final = 3_000
"""Shorter than anybody would want it outside of tests: what takes over does so soon."""

WAIT_S_MAX: Final = 60.0
_LOOK_S: Final = 0.05
_ANSWER_S_MAX: Final = 5.0


class Cluster:
    """Brokers 1 to `brokers`, processes of their own: `with Cluster() as cluster: …`.

    Files go below `data`, or to a temporary directory that is removed at the end. `config` takes
    any broker key by its Kafka name, for all of them; `racks` says where they stand, in turn.
    Topics have as many replicas as there are brokers, up to 3, and with 3 brokers a write with
    acks=all needs 2 of them. Needs Java.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        data: str | Path | None = None,
        config: Mapping[str, object] | None = None,
        racks: Sequence[str] = (),
        zookeeper_servers: int = 1,
    ) -> None:
        require(brokers >= 1, "a cluster has a broker at least")
        self._count = brokers
        self._data = None if data is None else Path(data)
        self._temporary: Path | None = None
        self._config = {"zookeeper.session.timeout.ms": str(SESSION_MS)} | {
            key: text_of(value) for key, value in (config or {}).items()
        }
        self._racks = tuple(racks)
        self._servers = zookeeper_servers
        self._local: LocalCluster | None = None

    # All of it

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # Nothing runs, and nobody will come to the end of the block.
            self._remove_temporary()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._local is not None:
                # Nothing is to be kept of a temporary one, so nobody waits for an orderly end.
                self.stop() if self._temporary is None else self._local.kill()
        finally:
            self._remove_temporary()

    @property
    def bootstrap_servers(self) -> str:
        """What every Kafka client wants to know."""
        return self._made().bootstrap_servers

    @property
    def data(self) -> Path:
        """Where the files are: broker-1, broker-2 and so on, and zookeeper."""
        if self._data is None:
            self._data = self._temporary = Path(tempfile.mkdtemp(prefix="barnabas-"))
        return self._data

    @property
    def zookeeper(self) -> ZooKeeperEnsemble:
        """Its servers can be killed and started again, too."""
        return self._made().zookeeper

    # One broker, or all

    def start(self, number: int | None = None) -> None:
        """Start a broker that was killed or stopped, or everything; it serves afterwards."""
        if number is not None:
            broker = self._made().brokers[number]
            broker.start()
            broker.wait_ready()
            return
        if self._local is None:
            self._local = LocalCluster(
                self.data,
                free_ports(self._count),
                settings=self._config,
                racks=self._racks,
                ensemble=self._servers,
                sync=False,
                hear=self._write_down,
            )
        self._local.start()

    def stop(self, number: int | None = None) -> None:
        """Stop a broker cleanly, so that it hands over what it leads; or everything."""
        local = self._made()
        if number is None:
            local.stop()
        else:
            local.brokers[number].stop()

    def kill(self, number: int) -> None:
        """End a broker as `kill -9` does."""
        self._made().brokers[number].kill()

    def pause(self, number: int) -> None:
        """Let it stand still (SIGSTOP): it answers nobody, and does not know it."""
        self._made().brokers[number].signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let a paused broker go on."""
        self._made().brokers[number].signal(signal.SIGCONT)

    @property
    def running(self) -> list[int]:
        """The brokers whose processes live."""
        return [number for number, broker in self._made().brokers.items() if broker.is_running]

    def pid(self, number: int) -> int:
        """The process of a broker."""
        return self._made().brokers[number].pid

    def log_of(self, number: int) -> str:
        """What a broker has logged since the first start."""
        path = self._log_path(number)
        return path.read_text() if path.exists() else ""

    # What the brokers say

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Who leads a partition, as brokers say now; None: nobody, or there is none such."""
        facts = self._partition(topic, partition)
        return None if facts is None or facts.leader not in self._made().brokers else facts.leader

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The in-sync replicas of a partition."""
        facts = self._partition(topic, partition)
        return [] if facts is None else sorted(facts.in_sync)

    def controller(self) -> int | None:
        """Which broker is the controller, if one is."""
        found = self._metadata(None).controller
        return found if found in self._made().brokers else None

    def wait_until_in_sync(self, timeout_s: float = WAIT_S_MAX) -> None:
        """Return once every partition has a leader and all of its replicas are in sync.

        Every running broker is asked, and they must tell the same: some learn later than others.
        """
        deadline = time.monotonic() + timeout_s
        while (late := self._late()) is not None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not in sync after {timeout_s:g} s: {late}")
            time.sleep(_LOOK_S)

    def _late(self) -> str | None:
        """Something that is not as it should be."""
        told: list[Metadata] = []
        for number in self.running:
            try:
                told.append(self._ask(number, None))
            except OSError as error:
                return f"broker {number} does not answer ({error})"
        for name, partitions in told[0].topics.items() if told else ():
            for facts in partitions:
                if facts.leader < 0 or len(facts.in_sync) < len(facts.replicas):
                    return f"{name}-{facts.number}: leader {facts.leader}, in sync {facts.in_sync}"
        if any(each.topics != told[0].topics for each in told):
            return "the brokers do not tell the same"
        return None

    def _partition(self, topic: str, number: int) -> PartitionFacts | None:
        for facts in self._metadata([topic]).topics.get(topic, []):
            if facts.number == number:
                return facts
        return None

    def _metadata(self, topics: list[str] | None) -> Metadata:
        """From the first broker that answers; a paused one does not."""
        deadline = time.monotonic() + WAIT_S_MAX
        problem: OSError | None = None
        while True:
            for number in self.running:
                try:
                    return ask_metadata(self._made().brokers[number].address, topics, _ANSWER_S_MAX)
                except OSError as error:
                    problem = error
            if time.monotonic() > deadline:
                raise TimeoutError("no broker of the cluster answers") from problem
            time.sleep(_LOOK_S)

    def _ask(self, number: int, topics: list[str] | None) -> Metadata:
        return ask_metadata(self._made().brokers[number].address, topics, _ANSWER_S_MAX)

    # Inside

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _made(self) -> LocalCluster:
        if self._local is None:
            raise RuntimeError("the cluster is not running: use it in a `with` block, or start it")
        return self._local

    def _log_path(self, number: int) -> Path:
        return self.data / f"broker-{number}.log"

    def _write_down(self, number: int, line: str) -> None:
        with self._log_path(number).open("a") as log:
            log.write(f"{line}\n")
