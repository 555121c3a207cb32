"""Partitions and coordinators follow what the cluster decides."""

import asyncio
from collections.abc import Awaitable, Callable

from barnabas.broker.coordinators import Coordinators
from barnabas.cluster.changes import (
    Change,
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from barnabas.cluster.image import Topic
from barnabas.replica.service import Replicas


class Following:
    """Opens, grows, configures and removes partitions, and then tells the coordinators on them."""

    def __init__(
        self, replicas: Replicas, coordinators: Coordinators, disk_failed: Callable[[str], None]
    ) -> None:
        self._replicas = replicas
        self._coordinators = coordinators
        self._tell_disk_failed = disk_failed
        self._stopped = False

    def follow(self, change: Change) -> Awaitable[None] | None:
        """The cluster has changed. What is returned is done when the change can be told of."""
        match change:
            case TopicCreated(topic):
                return self._once_done(self._replicas.create(topic), topic, change)
            case PartitionsAdded(topic, first_new):
                return self._once_done(self._replicas.grow(topic, first_new), topic, change)
            case TopicDeleted(topic):
                renamed = self._replicas.delete(topic)
                self._coordinators.follow(change)
                return self._once_done(renamed, topic, change)
            case TopicConfigChanged(topic):
                self._replicas.configure(topic)
            case _:
                pass
        self._coordinators.follow(change)
        return None

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
