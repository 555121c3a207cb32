"""All partitions that live on this broker, found by topic name or id."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.cluster.image import Topic
from barnabas.log.log import PartitionLog
from barnabas.log.recovery import DamagedLogError
from barnabas.log.store import LogStore
from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.ports.work import Lane, Work
from barnabas.replica.lease import Lease
from barnabas.replica.partition import Partition

logger = logging.getLogger(__name__)

T = TypeVar("T")

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
    me: int | None
    """Which broker this is; None: the only one there ever is."""
    partitions: dict[int, Partition] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)
    """Partitions whose files are damaged beyond stepping over, and what is wrong with them."""
    begun: dict[int, object] = field(default_factory=dict)
    """Partitions that are being opened, or are open, and what their opening is known by."""

    @property
    def mine(self) -> list[int]:
        """The partitions that have a replica here."""
        return [n for n in range(len(self.topic.partitions)) if self.is_mine(n)]

    def is_mine(self, index: int) -> bool:
        """Whether that partition has a replica here."""
        return self.me is None or self.me in self.topic.partitions[index].replicas

    @property
    def has_opening(self) -> bool:
        """Whether some partitions exist that will be served soon."""
        return len(self.partitions) + len(self.damaged) < len(self.mine)

    def exists(self, index: int) -> bool:
        """Whether the topic has that partition, be it here or elsewhere."""
        return 0 <= index < len(self.topic.partitions)

    def is_opening(self, index: int) -> bool:
        """Whether that partition lives here, and will be served soon."""
        return (
            self.exists(index)
            and self.is_mine(index)
            and index not in self.partitions
            and index not in self.damaged
        )


class _Place(NamedTuple):
    """A partition whose log is to be opened."""

    hosted: HostedTopic
    number: int
    opening: object

    @classmethod
    def begin(cls, hosted: HostedTopic, number: int) -> "_Place":
        """From here on it is being opened."""
        opening = hosted.begun[number] = object()
        return cls(hosted, number, opening)

    @property
    def is_wanted(self) -> bool:
        """Whether it was not moved away since then, be it that it has come back."""
        return self.hosted.begun.get(self.number) is self.opening

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.hosted.topic.name, self.number)


class Replicas:
    """Opens and closes partitions as topics come and go.

    That takes long for many, so it happens off the loop, bit by bit. What is asked about one topic
    name is done one after the other.
    """

    def __init__(
        self,
        store: LogStore,
        work: Work,
        disk_failed: Callable[[str], None],
        node_id: int | None = None,
    ) -> None:
        self.store = store
        self._node_id = node_id
        self._served: Callable[[HostedTopic, int, Partition], None] = _nobody_waits
        self._unopened: Callable[[HostedTopic, int, Exception], None] = _nobody_mends
        self._roles_changed: Callable[[Partition], None] = _nobody_leads
        self._dropped: Callable[[TopicPartition], None] = _nobody_misses_it
        self._work = work
        self._lease = Lease()
        self._tell_disk_failed = disk_failed
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self.generation = 0
        """Counts the changes of what is hosted: whoever remembers a partition checks it."""
        self._under_way: dict[str, asyncio.Task[Any]] = {}
        """The last thing that is being done to the folders of a topic name."""
        self._failure: str | None = None
        self._stopping = False

    def on_served(self, told: "Callable[[HostedTopic, int, Partition], None]") -> None:
        """Call `told` with each partition that is served from now on, or in another role."""
        self._served = told

    def on_unopened(self, told: "Callable[[HostedTopic, int, Exception], None]") -> None:
        """Call `told` with each partition whose log can not be opened, and why."""
        self._unopened = told

    def on_dropped(self, told: "Callable[[TopicPartition], None]") -> None:
        """Call `told` with each partition that has no replica here any more."""
        self._dropped = told

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
        hosted = [self._register(topic) for topic in wanted]
        known = {TopicPartition(each.topic.name, p) for each in hosted for p in each.mine}
        clear = partial(self.store.clear_strays, known, _elsewhere(hosted))
        self.store.doom(await self._work.run(clear, Lane.CHORE))
        places = iter([_Place.begin(each, p) for each in hosted for p in each.mine])
        await asyncio.gather(*(self._open(places) for _ in range(_OPENERS)))
        if not self.store.clean:
            # A recovery point beyond a log's end would take its next torn tail for damage.
            await self._work.run(self.store.checkpoint_job(), Lane.CHORE)

    def _register(self, topic: Topic) -> HostedTopic:
        self.generation += 1
        hosted = HostedTopic(topic, self._node_id)
        self.by_name[topic.name] = hosted
        self.by_id[topic.id_bytes] = hosted
        return hosted

    def create(self, topic: Topic) -> "asyncio.Task[None]":
        """A topic has come. Done when its partitions are served."""
        hosted = self._register(topic)
        return self._open_new(hosted, hosted.mine)

    def grow(self, topic: Topic, first_new: int) -> "asyncio.Task[None]":
        """A topic has got more partitions. Done when those are served."""
        hosted = self.by_name[topic.name]
        hosted.topic = topic
        return self._open_new(hosted, [index for index in hosted.mine if index >= first_new])

    def change(self, topic: Topic, numbers: Iterable[int]) -> "asyncio.Task[None] | None":
        """Other brokers lead or hold these partitions. Those that are here already learn of it at
        once; done when those that have come are served, and the folders of those that have gone
        have other names."""
        hosted = self.by_name[topic.name]
        hosted.topic = topic
        come, gone = [], []
        for index in numbers:
            partition = hosted.partitions.get(index)
            if not hosted.is_mine(index):
                if index in hosted.begun:
                    gone.append(index)
            elif partition is not None:
                self._assume(hosted, index, partition)
            elif hosted.is_opening(index) and index not in hosted.begun:
                # (One that is being opened will be what the cluster wants by then.)
                come.append(index)
        dropped = self._drop(hosted, gone) if gone else None
        return self._open_new(hosted, come) if come else dropped

    def _assume(self, hosted: HostedTopic, index: int, partition: Partition) -> None:
        if self._node_id is None:
            return
        state = hosted.topic.partitions[index]
        now_s = asyncio.get_running_loop().time()
        if partition.assume(self._node_id, state, now_s):
            self.generation += 1
            self._served(hosted, index, partition)

    def _open_new(self, hosted: HostedTopic, numbers: Iterable[int]) -> "asyncio.Task[None]":
        places = [_Place.begin(hosted, index) for index in numbers]
        return self._in_turn(hosted.topic.name, partial(self._open_where_nothing_is, places))

    async def _open_where_nothing_is(self, places: list[_Place]) -> None:
        forget = self.store.forget(place.partition for place in places)
        try:
            if forget is not None:
                await self._work.run(forget, Lane.CHORE)
        except OSError as error:
            for place in places:
                self._set_offline(place.hosted, place.number, error)
            return
        await self._open(iter(places))

    async def _open(self, places: Iterator[_Place]) -> None:
        """Open logs some at a time, until there are no more or nobody wants them."""
        while not self._stopping:
            next_places = list(islice(places, _AT_ONCE))
            if not next_places:
                return
            some = [each for each in next_places if self._is_wanted(each)]
            opened = await self._work.run(partial(self._open_logs, some), Lane.CHORE)
            for place, log in zip(some, opened, strict=True):
                if not self._is_wanted(place):
                    continue  # Its folder is about to be removed.
                if isinstance(log, PartitionLog):
                    self._serve(place.hosted, place.number, log)
                else:
                    self._set_offline(place.hosted, place.number, log)

    def _is_wanted(self, place: _Place) -> bool:
        return place.is_wanted and self.hosts(place.hosted.topic)

    def _open_logs(self, places: list[_Place]) -> list[PartitionLog | Exception]:
        """Off the loop. Whatever one log holds, the others are served."""
        opened: list[PartitionLog | Exception] = []
        for place in places:
            topic, partition = place.hosted.topic, place.partition
            try:
                alone = len(topic.partitions[place.number].replicas) == 1
                log = self.store.open(partition, topic.id, topic.config, alone=alone)
                opened.append(log)
            except (DamagedLogError, OSError) as error:
                opened.append(error)
            except Exception as error:
                logger.exception("opening %s failed in an unforeseen way", partition.directory)
                opened.append(error)
        return opened

    def _serve(self, hosted: HostedTopic, index: int, log: PartitionLog) -> None:
        state = hosted.topic.partitions[index]
        if log.config is not hosted.topic.config:
            log.configure(hosted.topic.config)
        partition = Partition(
            log, state.leader_epoch, self._work, self._tell_disk_failed, self._lease
        )
        if self._node_id is not None:
            now_s = asyncio.get_running_loop().time()
            partition.begin(self._node_id, state, self.store.committed(log.partition), now_s)
        if self._failure is not None:
            partition.stop(ErrorCode.kafka_storage_error, self._failure)
        hosted.partitions[index] = partition
        self._served(hosted, index, partition)

    def _set_offline(self, hosted: HostedTopic, index: int, error: Exception) -> None:
        logger.error("%s-%d stays offline until a restart: %s", hosted.topic.name, index, error)
        hosted.damaged[index] = str(error)
        self._unopened(hosted, index, error)

    async def lost(self, topics: Iterable[Topic]) -> list[tuple[Topic, int]]:
        """Partitions that should be here, and of which there is not even a folder."""
        mine = [
            (topic, number)
            for topic in topics
            for number, state in enumerate(topic.partitions)
            if self._node_id in state.replicas
        ]

        def look() -> list[tuple[Topic, int]]:
            return [
                (topic, number)
                for topic, number in mine
                if not self.store.holds(TopicPartition(topic.name, number), topic.id)
            ]

        return await self._work.run(look, Lane.CHORE)

    def begin_anew(self, hosted: HostedTopic, index: int) -> "asyncio.Task[str | None]":
        """A damaged log, on which nobody counts any more, is set aside and kept; an empty one is
        opened in its place. Where the damaged one is then; None: it could not be set aside."""
        self.generation += 1
        place = _Place.begin(hosted, index)
        partition = hosted.partitions.pop(index, None)
        hosted.damaged.pop(index, None)
        if partition is not None:
            partition.stop(ErrorCode.not_leader_or_follower, "it is damaged, and copied anew")

        async def renew() -> str | None:
            if partition is not None:
                # A sync writes by the folder's name.
                await partition.settle()
            if self._stopping or not self._is_wanted(place):
                return None
            try:
                job = partial(self.store.set_damaged_aside, place.partition)
                kept = await self._work.run(job, Lane.CHORE)
            except OSError as error:
                hosted.damaged[index] = str(error)
                logger.error("%s stays offline: %s", place.partition.directory, error)
                return None
            await self._open_where_nothing_is([place])
            return kept

        return self._in_turn(hosted.topic.name, renew)

    def configure(self, topic: Topic) -> None:
        """A topic's settings have changed."""
        hosted = self.by_name[topic.name]
        hosted.topic = topic
        for partition in hosted.partitions.values():
            partition.configure(topic.config)
            # `flush.ms` may call for a sync of what was written long ago.
            self.store.attention.draw(partition.log.partition)

    # --- in touch, or not ----------------------------------------------------------------------

    def hold_lease(self, held: bool) -> None:
        """Whether this broker may act as the leader of what other brokers could lead, too."""
        if held == self._lease.is_held:
            return
        self._lease.is_held = held
        for hosted in list(self.by_name.values()):
            for partition in list(hosted.partitions.values()):
                if held:
                    partition.lease_regained(asyncio.get_running_loop().time())
                else:
                    partition.lease_lost()
                self._roles_changed(partition)

    def on_roles_changed(self, told: "Callable[[Partition], None]") -> None:
        """Call `told` with each partition that may be led here again, or no more, because of the
        lease."""
        self._roles_changed = told

    # --- removing ------------------------------------------------------------------------------

    def delete(self, topic: Topic) -> "asyncio.Task[None]":
        """A topic is gone at once. Done when its folders have other names."""
        self.generation += 1
        hosted = self.by_name.pop(topic.name)
        self.by_id.pop(topic.id_bytes, None)
        for partition in hosted.partitions.values():
            partition.stop(ErrorCode.unknown_topic_or_partition, "The topic was deleted.")
        folders = iter([TopicPartition(topic.name, p) for p in hosted.mine])

        async def remove_them() -> None:
            while some := list(islice(folders, _AT_ONCE)):
                job = partial(self.store.set_deleted_aside, some)
                self.store.doom(await self._work.run(job, Lane.CHORE))

        return self._in_turn(topic.name, remove_them)

    def _drop(self, hosted: HostedTopic, numbers: Iterable[int]) -> "asyncio.Task[None]":
        """These partitions were moved to other brokers, which have all that is committed."""
        self.generation += 1
        gone = [TopicPartition(hosted.topic.name, index) for index in numbers]
        stopped = []
        for name in gone:
            del hosted.begun[name.partition]
            hosted.damaged.pop(name.partition, None)
            partition = hosted.partitions.pop(name.partition, None)
            if partition is not None:
                reason = "The partition was moved to other brokers."
                partition.stop(ErrorCode.not_leader_or_follower, reason)
                stopped.append(partition)
            self._dropped(name)

        async def remove_them() -> None:
            for partition in stopped:
                # A sync writes by the folder's name, and the partition may come back.
                await partition.settle()
            folders = iter(gone)
            while some := list(islice(folders, _AT_ONCE)):
                job = partial(self.store.set_deleted_aside, some)
                self.store.doom(await self._work.run(job, Lane.CHORE))

        return self._in_turn(hosted.topic.name, remove_them)

    def _in_turn(self, name: str, do: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        """Begin when nothing else is being done to the folders of that topic name."""
        before = self._under_way.get(name)

        async def wait_and_do() -> T:
            if before is not None:
                await asyncio.wait([before])
            return await do()

        task = asyncio.get_running_loop().create_task(wait_and_do())
        self._under_way[name] = task
        task.add_done_callback(lambda done: self._finished(name, done))
        return task

    def _finished(self, name: str, task: "asyncio.Task[Any]") -> None:
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


def _elsewhere(topics: Iterable[HostedTopic]) -> dict[TopicPartition, tuple[uuid.UUID, int]]:
    """Partitions that have replicas, and none here: of which topic, and in which leader epoch."""
    return {
        TopicPartition(each.topic.name, number): (each.topic.id, state.leader_epoch)
        for each in topics
        for number, state in enumerate(each.topic.partitions)
        if not each.is_mine(number)
    }


def _nobody_waits(_hosted: HostedTopic, _index: int, _partition: Partition) -> None:
    """Nothing has to follow from it."""


def _nobody_mends(_hosted: HostedTopic, _index: int, _error: Exception) -> None:
    """It stays offline."""


def _nobody_leads(_partition: Partition) -> None:
    """Nothing depends on who leads."""


def _nobody_misses_it(_partition: TopicPartition) -> None:
    """Nothing depends on it."""
