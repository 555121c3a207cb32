"""All partitions that live on this broker, found by topic name or id."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from barnabas.cluster.image import Topic
from barnabas.log.log import PartitionLog
from barnabas.log.recovery import DamagedLogError
from barnabas.log.store import LogStore
from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.ports.work import Lane, Work
from barnabas.replica.partition import Partition

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 64
"""Logs that one job opens, closes or removes: some milliseconds of work, and as much less of
jobs and futures."""

_OPENERS: Final = 2
"""Jobs that open logs side by side at start: more would wait for each other in Python. While
others are served there is one."""

_CLOSERS: Final = 8
"""Closing waits for syncs, of which a disk takes many at once."""


@dataclass(slots=True, eq=False)
class HostedTopic:
    """A topic and those of its partitions that live here."""

    topic: Topic
    partitions: dict[int, Partition] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)
    """Partitions whose files are damaged beyond stepping over, and what is wrong with them."""

    @property
    def has_opening(self) -> bool:
        """Whether some partitions exist that will be served soon."""
        return len(self.partitions) + len(self.damaged) < len(self.topic.partitions)

    def is_opening(self, index: int) -> bool:
        """Whether that partition exists, and will be served soon."""
        return (
            0 <= index < len(self.topic.partitions)
            and index not in self.partitions
            and index not in self.damaged
        )


class _Place(NamedTuple):
    """A partition whose log is to be opened."""

    hosted: HostedTopic
    number: int

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.hosted.topic.name, self.number)


class Replicas:
    """Opens and closes partitions as topics come and go.

    That takes long for many, so it happens off the loop, bit by bit. What is asked about one topic
    name is done one after the other.
    """

    def __init__(self, store: LogStore, work: Work, disk_failed: Callable[[str], None]) -> None:
        self.store = store
        self._work = work
        self._tell_disk_failed = disk_failed
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self.generation = 0
        """Counts the changes of what is hosted: whoever remembers a partition checks it."""
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """The last thing that is being done to the folders of a topic name."""
        self._failure: str | None = None
        self._stopping = False

    def find(self, topic: str, partition: int) -> Partition | None:
        """The partition, if it is served here."""
        hosted = self.by_name.get(topic)
        return hosted.partitions.get(partition) if hosted is not None else None

    def __iter__(self) -> Iterator[Partition]:
        for hosted in list(self.by_name.values()):
            yield from list(hosted.partitions.values())

    def hosts(self, topic: Topic) -> bool:
        """Whether that very topic is here, and not gone or followed by another of its name."""
        return topic.id_bytes in self.by_id

    # --- opening -------------------------------------------------------------------------------

    async def open_all(self, topics: Iterable[Topic]) -> None:
        """Open every log at start; recovery runs off the loop, several logs at a time."""
        wanted = list(topics)
        known = {TopicPartition(t.name, p) for t in wanted for p in range(len(t.partitions))}
        await self._work.run(partial(self.store.set_strays_aside, known), Lane.CHORE)
        hosted = [self._register(topic) for topic in wanted]
        places = (_Place(each, p) for each in hosted for p in range(len(each.topic.partitions)))
        await asyncio.gather(*(self._open(places) for _ in range(_OPENERS)))
        if not self.store.clean:
            # A recovery point beyond a log's end would take its next torn tail for damage.
            await self._work.run(self.store.checkpoint_job(), Lane.CHORE)

    def _register(self, topic: Topic) -> HostedTopic:
        self.generation += 1
        hosted = HostedTopic(topic)
        self.by_name[topic.name] = hosted
        self.by_id[topic.id_bytes] = hosted
        return hosted

    def create(self, topic: Topic) -> "asyncio.Task[None]":
        """A topic has come. Done when its partitions are served."""
        return self._open_new(self._register(topic), 0)

    def grow(self, topic: Topic, first_new: int) -> "asyncio.Task[None]":
        """A topic has got more partitions. Done when those are served."""
        hosted = self.by_name[topic.name]
        hosted.topic = topic
        return self._open_new(hosted, first_new)

    def _open_new(self, hosted: HostedTopic, first: int) -> "asyncio.Task[None]":
        places = [_Place(hosted, index) for index in range(first, len(hosted.topic.partitions))]

        async def open_them() -> None:
            forget = self.store.forget(place.partition for place in places)
            try:
                if forget is not None:
                    await self._work.run(forget, Lane.CHORE)
            except OSError as error:
                for place in places:
                    self._set_offline(place.hosted, place.number, error)
                return
            await self._open(iter(places))

        return self._in_turn(hosted.topic.name, open_them)

    async def _open(self, places: Iterator[_Place]) -> None:
        """Open logs some at a time, until there are no more or nobody wants them."""
        while not self._stopping:
            next_places = list(islice(places, _AT_ONCE))
            if not next_places:
                return
            some = [each for each in next_places if self.hosts(each.hosted.topic)]
            opened = await self._work.run(partial(self._open_logs, some), Lane.CHORE)
            for (hosted, index), log in zip(some, opened, strict=True):
                if not self.hosts(hosted.topic):
                    continue  # Its folders are about to be removed.
                if isinstance(log, PartitionLog):
                    self._serve(hosted, index, log)
                else:
                    self._set_offline(hosted, index, log)

    def _open_logs(self, places: list[_Place]) -> list[PartitionLog | Exception]:
        """Off the loop. Whatever one log holds, the others are served."""
        opened: list[PartitionLog | Exception] = []
        for place in places:
            topic, partition = place.hosted.topic, place.partition
            try:
                opened.append(self.store.open(partition, topic.id, topic.config))
            except (DamagedLogError, OSError) as error:
                opened.append(error)
            except Exception as error:
                logger.exception("opening %s failed in an unforeseen way", partition.directory)
                opened.append(error)
        return opened

    def _serve(self, hosted: HostedTopic, index: int, log: PartitionLog) -> None:
        epoch = hosted.topic.partitions[index].leader_epoch
        if log.config is not hosted.topic.config:
            log.configure(hosted.topic.config)
        partition = Partition(log, epoch, self._work, self._tell_disk_failed)
        if self._failure is not None:
            partition.stop(ErrorCode.kafka_storage_error, self._failure)
        hosted.partitions[index] = partition

    @staticmethod
    def _set_offline(hosted: HostedTopic, index: int, error: Exception) -> None:
        logger.error("%s-%d stays offline until a restart: %s", hosted.topic.name, index, error)
        hosted.damaged[index] = str(error)

    def configure(self, topic: Topic) -> None:
        """A topic's settings have changed."""
        hosted = self.by_name[topic.name]
        hosted.topic = topic
        for partition in hosted.partitions.values():
            partition.log.configure(topic.config)
            # `flush.ms` may call for a sync of what was written long ago.
            self.store.attention.draw(partition.log.partition)

    # --- removing ------------------------------------------------------------------------------

    def delete(self, topic: Topic) -> "asyncio.Task[None]":
        """A topic is gone at once. Done when its folders have other names."""
        self.generation += 1
        hosted = self.by_name.pop(topic.name)
        self.by_id.pop(topic.id_bytes, None)
        for partition in hosted.partitions.values():
            partition.stop(ErrorCode.unknown_topic_or_partition, "The topic was deleted.")
        folders = iter([TopicPartition(topic.name, p) for p in range(len(topic.partitions))])

        async def remove_them() -> None:
            while some := list(islice(folders, _AT_ONCE)):
                job = partial(self.store.set_deleted_aside, some)
                self.store.doom(await self._work.run(job, Lane.CHORE))

        return self._in_turn(topic.name, remove_them)

    def _in_turn(self, name: str, do: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        """Begin when nothing else is being done to the folders of that topic name."""
        before = self._under_way.get(name)

        async def wait_and_do() -> None:
            if before is not None:
                await asyncio.wait([before])
            await do()

        task = asyncio.get_running_loop().create_task(wait_and_do())
        self._under_way[name] = task
        task.add_done_callback(lambda done: self._finished(name, done))
        return task

    def _finished(self, name: str, task: "asyncio.Task[None]") -> None:
        if self._under_way.get(name) is task:
            del self._under_way[name]

    # --- ending --------------------------------------------------------------------------------

    def wake_fetches(self) -> None:
        """Nobody shall wait any longer: the broker is about to stop."""
        for partition in self:
            partition.wake_fetches()

    async def settle(self) -> None:
        """Wait for every folder that is being opened or renamed, and every sync under way."""
        self._stopping = True
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))
        for partition in self:
            await partition.settle()

    async def close(self) -> None:
        """Sync and close all logs, many at a time, and the store with them."""
        logs = iter(list(self.store.logs))

        async def close_some() -> None:
            while some := list(islice(logs, _AT_ONCE)):
                await self._work.run(partial(self.store.close_logs, some), Lane.SYNC)

        await asyncio.gather(*(close_some() for _ in range(_CLOSERS)))
        await self._work.run(self.store.close, Lane.SYNC)

    def fail_all(self, reason: str) -> None:
        """The disk has failed: nothing is acknowledged from here on."""
        self._failure = reason
        for partition in self:
            partition.stop(ErrorCode.kafka_storage_error, reason)
