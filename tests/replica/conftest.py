"""Partitions over files in memory, with slow work that waits until a test lets it go."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from barnabas.config.topic_config import TopicConfig
from barnabas.log.recovery import LogPlace, load_log
from barnabas.model.topics import TopicPartition
from barnabas.ports.files import Files
from barnabas.ports.work import Caller, Lane
from barnabas.replica.partition import Partition
from barnabas.sim.loop import run
from barnabas.wire.records.record import encode_batch
from barnabas.world.memory import MemoryFiles

T = TypeVar("T")
NOW_MS = 1_700_000_000_000


@dataclass
class GatedWork:
    """Does nothing until told: `finish` does the oldest job, `fail` lets it fail."""

    waiting: list[tuple[Callable[[], Any], "asyncio.Future[Any]"]] = field(default_factory=list)
    started: int = 0

    def run(self, job: Callable[[], T], lane: Lane = Lane.READ) -> "asyncio.Future[T]":
        self.started += 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.waiting.append((job, future))
        return future

    def run_apart(
        self, job: Callable[[Caller], T], told: Callable[[Any], None]
    ) -> "asyncio.Future[T]":
        raise AssertionError("a partition has no long jobs")

    async def stop_apart(self) -> None:
        raise AssertionError("a partition has no long jobs")

    def close(self) -> None:
        self.waiting.clear()

    async def finish(self) -> None:
        job, future = self.waiting.pop(0)
        try:
            result = job()
        except OSError as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        await asyncio.sleep(0)

    async def fail(self, error: Exception) -> None:
        self.waiting.pop(0)[1].set_exception(error)
        await asyncio.sleep(0)


@dataclass
class Rig:
    """One partition and what it leans on."""

    partition: Partition
    work: GatedWork
    files: Files
    failures: list[str]

    def send(
        self, *values: bytes, producer: tuple[int, int, int] | None = None
    ) -> "asyncio.Future[None] | None":
        """Append a batch; the future of its acknowledgement, or None: acknowledged at once."""
        producer_id, epoch, sequence = producer or (-1, -1, -1)
        data = encode_batch(
            [(NOW_MS, b"k", value, []) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        view = memoryview(bytearray(data))
        log = self.partition.log
        return self.partition.append(view, log.check(view, NOW_MS), NOW_MS)[1]


def make_rig(config: TopicConfig | None = None, files: Files | None = None) -> Rig:
    files = files or MemoryFiles()
    files.make_dirs("data/events-0")
    place = LogPlace(files, "data/events-0", TopicPartition("events", 0), config or TopicConfig())
    log = load_log(place, NOW_MS)
    work, failures = GatedWork(), list[str]()
    return Rig(Partition(log, 3, work, failures.append), work, files, failures)


Scene = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
def play() -> Callable[[Scene], None]:
    """Runs a coroutine where a second takes no time."""
    return lambda scene: run(lambda _loop: scene(), 0)
