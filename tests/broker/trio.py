"""Three whole brokers in virtual time: each with a disk and a machine of its own, and one simulated
ZooKeeper for all."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32, i32Timedelta
from tests.broker.conftest import Client

from barnabas.broker.broker import Broker
from barnabas.broker.outside import Outside
from barnabas.cluster import layout
from barnabas.cluster.image import PartitionState
from barnabas.config.broker_config import BrokerConfig
from barnabas.link.aio import connect
from barnabas.model.errors import ErrorCode
from barnabas.replica.partition import Partition
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.sim.loop import SimLoop
from barnabas.sim.network import on_machine
from barnabas.sim.process import Process
from barnabas.sim.work import SimWork
from barnabas.sim.zookeeper import Ensemble

NUMBERS = (1, 2, 3)
PORT = 9092
SESSION_S = 6.0
TOPIC = "events"
PATIENCE_S = 120.0


def machine(number: int) -> str:
    return f"machine-{number}"


@dataclass
class Running:
    """One broker's present life."""

    broker: Broker
    work: SimWork
    process: Process
    failures: list[str] = field(default_factory=list)


class Trio:
    """The brokers, and what can be done to them."""

    def __init__(self, loop: SimLoop, settings: dict[str, str]) -> None:
        self.loop = loop
        self.ensemble = Ensemble(loop, session_timeout_s=SESSION_S)
        self.disks = {n: SimFiles(n, chances=Chances(cold=0.1)) for n in NUMBERS}
        self.running: dict[int, Running] = {}
        self.written: list[bytes] = []
        self._settings = settings
        self._lives = 0

    # --- brokers -------------------------------------------------------------------------------

    async def start(self, *numbers: int) -> None:
        """Start these, one after the other."""
        for number in numbers:
            running = self.prepared(number)
            with running.process.inside():
                starting = asyncio.get_running_loop().create_task(running.broker.start())
            await starting
            self.running[number] = running

    def prepared(self, number: int) -> Running:
        """A broker that is not started yet."""
        self._lives += 1
        work = SimWork(self.loop, f"{number}-{self._lives}")
        failures: list[str] = []
        outside = Outside(
            clock=SimClock(self.loop),
            entropy=SimEntropy(100 * self._lives + number),
            files=self.disks[number],
            work=work,
            open_coordination=lambda _: self.ensemble.client(machine(number)),
        )
        config = BrokerConfig(
            {
                "node.id": str(number),
                "listeners": f"PLAINTEXT://{machine(number)}:{PORT}",
                "allow.insecure": "true",
                "log.dirs": "data",
                "broker.rack": f"rack-{number}",
                "zookeeper.connect": "somewhere:2181",
                "log.scrub.interval.ms": "20000",
                "replica.lag.time.max.ms": "5000",
                **self._settings,
            }
        )
        process = Process(machine(number), self._lives)
        return Running(Broker(config, outside, failures.append), work, process, failures)

    async def stop(self, number: int) -> None:
        """In an orderly way."""
        leaving = self.running.pop(number)
        with leaving.process.inside():
            stopping = asyncio.get_running_loop().create_task(leaving.broker.stop())
        await stopping

    async def kill(self, number: int, *, power: bool = False) -> None:
        """The process dies at once; with `power`, what was not synced is gone."""
        gone = self.running.pop(number)
        self.loop.kill(gone.process)
        gone.work.kill()
        self.ensemble.kill(machine(number))
        self.loop.network.kill_machine(machine(number))
        disk = self.disks[number]
        self.disks[number] = disk.crash() if power else disk.kill()

    def partition(self, number: int) -> Partition:
        """The partition, as that broker has it."""
        found = self.running[number].broker._replicas.find(TOPIC, 0)
        assert found is not None
        return found

    # --- what is so ----------------------------------------------------------------------------

    def state(self) -> PartitionState:
        """What the store says of the partition."""
        path = layout.state_path(TOPIC, 0)
        node = self.ensemble.get(path)
        assert node is not None
        return layout.decode_state(path, node.data, NUMBERS, node.version)

    async def until(self, holds: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        """Let time go on until that holds."""
        deadline = self.loop.time() + within_s
        while not holds():
            assert self.loop.time() < deadline, "still not"
            await asyncio.sleep(0.01)

    async def until_in_sync(self, *numbers: int) -> None:
        """Until these are the ISR, and one of them leads."""
        await self.until(
            lambda: set(self.state().isr) == set(numbers) and self.state().leader in numbers
        )

    def folder(self, number: int) -> dict[str, bytes]:
        """The log's files, as they are on a broker's disk; none while it is copied anew."""
        disk, path = self.disks[number], f"data/{TOPIC}-0"
        if not disk.exists(path):
            return {}
        return {name: disk.read(f"{path}/{name}") for name in disk.list(path) if "." in name}

    def log_bytes(self, number: int) -> bytes:
        """All batches that a broker has."""
        files = self.folder(number)
        return b"".join(files[name] for name in sorted(files) if name.endswith(".log"))

    def kept_aside(self, number: int) -> list[str]:
        """Damaged folders that were kept."""
        return [name for name in self.disks[number].list("data") if name.endswith("-damaged")]

    # --- clients -------------------------------------------------------------------------------

    async def client(self, number: int) -> Client:
        """A connection to one broker."""
        with on_machine("client"):
            link = await asyncio.get_running_loop().create_task(connect(machine(number), PORT))
        return Client(link, SimClock(self.loop))

    async def create(self, **configs: str) -> None:
        """A topic of one partition on all three, led by the first."""
        settings = {"min_insync_replicas": "2"} | configs
        topic = CreatableTopic(
            name=TopicName(TOPIC),
            num_partitions=i32(-1),
            replication_factor=i16(-1),
            assignments=(
                CreatableReplicaAssignment(
                    partition_index=i32(0), broker_ids=tuple(map(BrokerId, NUMBERS))
                ),
            ),
            configs=tuple(
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in settings.items()
            ),
        )
        patience = i32Timedelta.parse(timedelta(seconds=30))
        request = CreateTopicsRequest(topics=(topic,), timeout=patience, validate_only=False)
        await self.until(self._all_know_all)
        for number in self.running:
            client = await self.client(number)
            (result,) = (await client.link.call(19, 7, request)).topics
            await client.link.close()
            if result.error_code is not ErrorCode.not_controller:
                fine = (ErrorCode.none, ErrorCode.topic_already_exists)
                assert result.error_code in fine, (result.error_code, result.error_message)
        await self.until_in_sync(*NUMBERS)

    def _all_know_all(self) -> bool:
        images = (each.broker._cluster.image for each in self.running.values())
        return all(set(image.brokers) == set(self.running) for image in images)

    async def write(self, count: int) -> None:
        """As a patient producer would: again, elsewhere, until it is acknowledged. (Not
        idempotent, so that only what was refused is sent again.)"""
        for _ in range(count):
            value = b"%d" % len(self.written)
            while not await self.wrote(value):
                await asyncio.sleep(0.2)
            self.written.append(value)

    async def wrote(self, value: bytes) -> bool:
        """One attempt at the present leader."""
        leader = self.state().leader
        if leader not in self.running:
            return False
        try:
            client = await self.client(leader)
            result = await client.produce(TOPIC, value)
            await client.link.close()
        except OSError:
            return False
        return result.error == 0

    async def read_all(self) -> list[bytes | None]:
        """As a patient consumer would, from the beginning; never anything damaged."""
        found: list[bytes | None] = []
        deadline = self.loop.time() + PATIENCE_S
        while len(found) < len(self.written):
            assert self.loop.time() < deadline, f"{len(found)} of {len(self.written)} are there"
            leader = self.state().leader
            if leader in self.running:
                client = await self.client(leader)
                code, values = await client.fetch(TOPIC, len(found), wait_ms=100)
                await client.link.close()
                assert code in (
                    ErrorCode.none,
                    ErrorCode.not_leader_or_follower,
                    ErrorCode.offset_out_of_range,
                ), code
                found += values
            await asyncio.sleep(0.05)
        return found


Scene = Callable[[Trio], Coroutine[Any, Any, None]]


def play(
    scene: Scene, seed: int | str = 0, *, topic: dict[str, str] | None = None, **settings: str
) -> None:
    """Three brokers and a topic; the scene; everybody is stopped."""
    named = {key.replace("_", "."): value for key, value in settings.items()}

    async def main(loop: SimLoop) -> None:
        trio = Trio(loop, named)
        await trio.start(*NUMBERS)
        await trio.create(**(topic or {}))
        await scene(trio)
        for number in list(trio.running):
            await trio.stop(number)

    loop = SimLoop(seed)
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(main(loop))
        assert not loop.unhandled
    finally:
        # What the dead have left undone stays undone.
        loop.forget()
        asyncio.set_event_loop(None)
        loop.close()
