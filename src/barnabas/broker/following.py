"""Partitions and coordinators follow what the cluster decides."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from barnabas.broker.coordinators import Coordinators
from barnabas.broker.replication import Replication
from barnabas.cluster.changes import (
    Change,
    PartitionsAdded,
    PartitionsChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from barnabas.cluster.image import Topic
from barnabas.model.topics import TopicPartition
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic, Replicas


class Following:
    """Opens, grows, configures and removes partitions, has them led or copied, and then tells the
    coordinators on them."""

    def __init__(
        self,
        replicas: Replicas,
        coordinators: Coordinators,
        replication: Replication,
        disk_failed: Callable[[str], None],
    ) -> None:
        self._replicas = replicas
        self._coordinators = coordinators
        self._replication = replication
        self._tell_disk_failed = disk_failed
        self._started = False
        self._held: list[tuple[Change, asyncio.Future[None]]] = []
        """What changed while the partitions were being opened."""
        self._stopped = False
        replicas.on_served(self._served)
        replicas.on_dropped(self._dropped)

    async def start(self, topics: Iterable[Topic]) -> None:
        """Open every partition that lives here, then let coordinators take office."""
        await self._replicas.open_all(topics)
        self._started = True
        self._coordinators.start()
        held, self._held = self._held, []
        for change, done in held:
            self._finish(self.follow(change), done)

    def _served(self, hosted: HostedTopic, _index: int, partition: Partition) -> None:
        if self._stopped:
            return
        self._replication.served(hosted, partition)
        if self._started:
            self._coordinators.served(partition)

    def _dropped(self, partition: TopicPartition) -> None:
        if not self._stopped:
            self._replication.dropped(partition)
            self._coordinators.dropped(partition)

    def follow(self, change: Change) -> Awaitable[None] | None:
        """The cluster has changed. What is returned is done when the change can be told of."""
        if not self._started:
            # Other brokers do not wait until this one has opened its logs.
            held = asyncio.get_running_loop().create_future()
            self._held.append((change, held))
            return held
        match change:
            case TopicCreated(topic):
                return self._once_done(self._replicas.create(topic), topic, change)
            case PartitionsAdded(topic, first_new):
                return self._once_done(self._replicas.grow(topic, first_new), topic, change)
            case PartitionsChanged(topic, numbers):
                come = self._replicas.change(topic, numbers)
                return None if come is None else self._once_done(come, topic, change)
            case TopicDeleted(topic):
                self._replication.forget(topic)
                renamed = self._replicas.delete(topic)
                self._coordinators.follow(change)
                return self._once_done(renamed, topic, change)
            case TopicConfigChanged(topic):
                self._replicas.configure(topic)
            case _:
                pass
        self._coordinators.follow(change)
        return None

    @staticmethod
    def _finish(following: Awaitable[None] | None, done: "asyncio.Future[None]") -> None:
        if following is None:
            done.set_result(None)
            return

        def tell(_: object) -> None:
            if not done.done():
                done.set_result(None)

        asyncio.ensure_future(following).add_done_callback(tell)

    def stop(self) -> None:
        """Coordinators hear of nothing any more."""
        self._stopped = True

    def _once_done(self, done: Awaitable[None], topic: Topic, change: Change) -> Awaitable[None]:
        """Coordinators hear of partitions that are open, unless they are gone meanwhile."""

        async def wait() -> None:
            try:
                await done
            except OSError as error:
                self._tell_disk_failed(f"following a change of topics failed: {error}")
            if self._replicas.hosts(topic) and not self._stopped:
                self._coordinators.follow(change)

        return asyncio.ensure_future(wait())
