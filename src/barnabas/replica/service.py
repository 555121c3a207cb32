"""All partitions that live on this broker, found by topic name or id."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from barnabas.cluster.image import Topic
from barnabas.log.recovery import DamagedLogError
from barnabas.log.store import LogStore
from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.ports.work import Work
from barnabas.replica.partition import Partition

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class HostedTopic:
    """A topic and those of its partitions that live here."""

    topic: Topic
    partitions: dict[int, Partition] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)
    """Partitions whose files are damaged beyond stepping over, and what is wrong with them."""


class Replicas:
    """Opens and closes partitions as topics come and go."""

    def __init__(self, store: LogStore, work: Work, disk_failed: Callable[[str], None]) -> None:
        self.store = store
        self._work = work
        self._tell_disk_failed = disk_failed
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self.generation = 0
        """Counts the changes of what is hosted: whoever remembers a partition checks it."""

    def find(self, topic: str, partition: int) -> Partition | None:
        """The partition, if it is served here."""
        hosted = self.by_name.get(topic)
        return hosted.partitions.get(partition) if hosted is not None else None

    def __iter__(self) -> Iterator[Partition]:
        for hosted in list(self.by_name.values()):
            yield from list(hosted.partitions.values())

    async def open_all(self, topics: Iterable[Topic]) -> None:
        """Open every log at start; recovery runs off the loop, several logs at a time."""
        wanted = list(topics)
        known = {TopicPartition(t.name, p) for t in wanted for p in range(len(t.partitions))}
        self.store.set_strays_aside(known)
        jobs = []
        for topic in wanted:
            self._register(topic)
            jobs += [self._open_later(topic, index) for index in range(len(topic.partitions))]
        await asyncio.gather(*jobs)
        if not self.store.clean:
            # A recovery point beyond a log's end would take its next torn tail for damage.
            await self._work.run(self.store.checkpoint_job())

    def _register(self, topic: Topic) -> HostedTopic:
        self.generation += 1
        hosted = HostedTopic(topic)
        self.by_name[topic.name] = hosted
        self.by_id[topic.id_bytes] = hosted
        return hosted

    async def _open_later(self, topic: Topic, index: int) -> None:
        partition = TopicPartition(topic.name, index)
        hosted = self.by_name[topic.name]
        try:
            log = await self._work.run(lambda: self.store.open(partition, topic.id, topic.config))
        except (DamagedLogError, OSError) as error:
            self._set_offline(hosted, partition, error)
            return
        except Exception as error:
            # Whatever one log holds, the others are served.
            logger.exception("opening %s failed in a way nobody thought of", partition.directory)
            self._set_offline(hosted, partition, error)
            return
        epoch = topic.partitions[index].leader_epoch
        hosted.partitions[index] = Partition(log, epoch, self._work, self._tell_disk_failed)

    @staticmethod
    def _set_offline(hosted: HostedTopic, partition: TopicPartition, error: Exception) -> None:
        logger.error("%s stays offline until a restart: %s", partition.directory, error)
        hosted.damaged[partition.partition] = str(error)

    def create(self, topic: Topic) -> None:
        """A topic has come: open its (empty) logs."""
        hosted = self._register(topic)
        self._open_new(hosted, 0)

    def _open_new(self, hosted: HostedTopic, first: int) -> None:
        topic = hosted.topic
        for index in range(first, len(topic.partitions)):
            partition = TopicPartition(topic.name, index)
            try:
                log = self.store.open(partition, topic.id, topic.config)
            except OSError as error:
                # A disk without room for a new log still has those that were there before.
                self._set_offline(hosted, partition, error)
                continue
            epoch = topic.partitions[index].leader_epoch
            hosted.partitions[index] = Partition(log, epoch, self._work, self._tell_disk_failed)

    def grow(self, topic: Topic, first_new: int) -> None:
        """A topic has got more partitions."""
        hosted = self.by_name[topic.name]
        hosted.topic = topic
        self._open_new(hosted, first_new)

    def configure(self, topic: Topic) -> None:
        """A topic's settings have changed."""
        hosted = self.by_name[topic.name]
        hosted.topic = topic
        for partition in hosted.partitions.values():
            partition.log.configure(topic.config)

    def delete(self, topic: Topic) -> None:
        """A topic is gone."""
        self.generation += 1
        hosted = self.by_name.pop(topic.name)
        self.by_id.pop(topic.id_bytes, None)
        for index, partition in hosted.partitions.items():
            partition.stop(ErrorCode.unknown_topic_or_partition, "The topic was deleted.")
            self.store.delete(TopicPartition(topic.name, index))
        for index in hosted.damaged:
            self.store.delete(TopicPartition(topic.name, index))

    def wake_fetches(self) -> None:
        """Nobody shall wait any longer: the broker is about to stop."""
        for partition in self:
            partition.wake_fetches()

    async def settle(self) -> None:
        """Wait for every sync that is under way."""
        for partition in self:
            await partition.settle()

    def fail_all(self, reason: str) -> None:
        """The disk has failed: nothing is acknowledged from here on."""
        for partition in self:
            partition.stop(ErrorCode.kafka_storage_error, reason)
