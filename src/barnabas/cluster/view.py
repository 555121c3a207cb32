"""The image as it is now, how it comes to be another, and who is told of that."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

from barnabas.cluster.changes import Change, changes_between
from barnabas.cluster.configs import with_broker_overrides
from barnabas.cluster.image import BrokerNode, Image, PartitionState, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.model.check import BrokenInvariantError

Listener = Callable[[Change], Awaitable[None] | None]

_log = logging.getLogger(__name__)


class View:
    """What is found out is put together with what is known, and never goes back.

    Every method is one step: whoever looks sees the image before it or after it.
    """

    def __init__(self) -> None:
        self._image: Image | None = None
        self._listeners: list[Listener] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._following: set[asyncio.Future[None]] = set()

    @property
    def is_loaded(self) -> bool:
        """Whether there is an image."""
        return self._image is not None

    @property
    def image(self) -> Image:
        """Read it anew after every await."""
        if self._image is None:
            raise BrokenInvariantError("the cluster has not been started")
        return self._image

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each change, in order, once it is in the image."""
        self._listeners.append(listener)

    def load(self, found: Image) -> list[Awaitable[None]]:
        """Everything was read anew."""
        if self._image is None:
            self._image = found
            return []
        known = self._image
        topics = [combined(known.topics.get(name), each) for name, each in found.topics.items()]
        after = replace(found, topics={}, topics_by_id={}).with_topics(topics)
        return self._become(after)

    def carried_out(self, before: Image, after: Image) -> list[Awaitable[None]]:
        """A decision that was made on `before` is stored: `after` is true.

        States of partitions may have changed meanwhile; the newer ones stay.
        """
        if self.image is before:
            return self._become(after)
        changed = [
            combined(self.image.topics.get(name), topic)
            for name, topic in after.topics.items()
            if before.topics.get(name) is not topic
        ]
        gone = [name for name in before.topics if name not in after.topics]
        current = with_broker_overrides(self.image, after.broker_overrides, after.config)
        return self._become(_without(current, gone).with_topics(changed))

    def found_topics(self, found: Mapping[str, Topic | None]) -> list[Awaitable[None]]:
        """These topics were read; None: there is no such topic."""
        known = self.image
        gone = [name for name, topic in found.items() if topic is None]
        changed = [
            combined(known.topics.get(name), topic) for name, topic in found.items() if topic
        ]
        return self._become(_without(known, gone).with_topics(changed))

    def found_state(self, topic: Topic, number: int, state: PartitionState) -> None:
        """The state of one partition was read or written."""
        known = self.image.topics.get(topic.name)
        if known is not None and known.id == topic.id and number < len(known.partitions):
            states = list(known.partitions)
            states[number] = _newer(states[number], state)
            if states[number] is not known.partitions[number]:
                changed = replace(known, partitions=tuple(states))
                self._become(self.image.with_topics([changed]))

    def found_brokers(self, brokers: Mapping[int, BrokerNode]) -> list[Awaitable[None]]:
        """The list of live brokers was read."""
        return self._become(replace(self.image, brokers=brokers))

    def found_controller(self, broker: int, epoch: int) -> list[Awaitable[None]]:
        """It was read who the controller is."""
        epoch = max(epoch, self.image.controller_epoch)
        return self._become(replace(self.image, controller_id=broker, controller_epoch=epoch))

    def found_overrides(
        self, overrides: Mapping[str, Mapping[str, str]], config: BrokerConfig
    ) -> list[Awaitable[None]]:
        """Settings of brokers were read."""
        return self._become(with_broker_overrides(self.image, overrides, config))

    async def until(self, holds: Callable[[Image], bool]) -> None:
        """Wait for an image of which that can be said."""
        while not holds(self.image):
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(changed)
            await changed

    def _become(self, after: Image) -> list[Awaitable[None]]:
        before = self.image
        changes = changes_between(before, after)
        if not changes and before == after:
            return []
        self._image = after
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)
        return [
            self._on_its_way(following)
            for change in changes
            for listener in self._listeners
            if (following := listener(change)) is not None
        ]

    def _on_its_way(self, following: Awaitable[None]) -> "asyncio.Future[None]":
        """Nobody may be waiting for it, and it has to be done all the same."""
        task = asyncio.ensure_future(following)
        self._following.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Future[None]") -> None:
        self._following.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.critical("A change of the cluster was not followed.", exc_info=task.exception())


def combined(known: Topic | None, found: Topic) -> Topic:
    """What was found, except for states of partitions that are known to be newer."""
    if known is None or known.id != found.id:
        return found
    states = tuple(
        _newer(old, new) for old, new in zip(known.partitions, found.partitions, strict=False)
    )
    added = max(known.partitions, found.partitions, key=len)[len(states) :]
    both = replace(found, partitions=(*states, *added))
    return known if both == known else both


def _newer(known: PartitionState, found: PartitionState) -> PartitionState:
    return found if found.partition_epoch >= known.partition_epoch and found != known else known


def _without(image: Image, names: Iterable[str]) -> Image:
    return image.without_topics(image.topics[name] for name in names if name in image.topics)
