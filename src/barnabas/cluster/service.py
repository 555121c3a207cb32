"""The cluster's one writer: takes decisions one at a time, stores them, then tells of them."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from barnabas.cluster import layout, loading
from barnabas.cluster.changes import Change, Decision
from barnabas.cluster.configs import (
    AlterResult,
    FullChange,
    IncrementalChange,
    decide_full,
    decide_incremental,
)
from barnabas.cluster.image import BrokerNode, Image
from barnabas.cluster.producer_ids import next_block
from barnabas.cluster.topics import (
    NewPartitions,
    NewTopic,
    TopicResult,
    decide_create,
    decide_create_partitions,
    decide_delete,
)
from barnabas.config.broker_config import BrokerConfig
from barnabas.model import limits
from barnabas.model.check import BrokenInvariantError
from barnabas.ports.clock import Clock
from barnabas.ports.coordination import BadVersionError, Coordination
from barnabas.ports.entropy import Entropy

R = TypeVar("R")
T = TypeVar("T")

Listener = Callable[[Change], Awaitable[None] | None]


class Cluster:
    """A single broker that is its own controller.

    Calls are serialised and finish even when the caller is cancelled, so that image and store
    never part: what is stored becomes the image, and a commit that fails changes neither (its
    CoordinationError reaches the caller).
    """

    def __init__(
        self,
        coordination: Coordination,
        config: BrokerConfig,
        entropy: Entropy,
        clock: Clock,
        partitions_max: int = limits.PARTITIONS_PER_BROKER_MAX,
    ) -> None:
        self.node_id = config.node_id
        self._coordination = coordination
        self._config = config
        self._entropy = entropy
        self._clock = clock
        self._partitions_max = partitions_max
        self._lock = asyncio.Lock()
        self._listeners: list[Listener] = []
        self._running: set[asyncio.Task[Any]] = set()
        self._image: Image | None = None
        self._controller_epoch = 0

    @property
    def image(self) -> Image:
        """The cluster as it is now. Read it anew after every await."""
        if self._image is None:
            raise BrokenInvariantError("the cluster has not been started")
        return self._image

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each change once it is stored and in the image.

        The call that made the change returns when all that listeners have returned is done; other
        changes do not wait for that. A listener must not raise: the change is done already.
        """
        self._listeners.append(listener)

    async def start(self, host: str, port: int, *, new_epochs: bool = False) -> None:
        """Register under the address clients reach this broker by, and load what is stored.

        `new_epochs`: the logs may have lost their tails, so every partition's leader begins a
        new epoch, by which clients notice that what they saw may be gone (KIP-320).
        """
        me = BrokerNode(self.node_id, host, port, self._config.broker_rack)
        tree = await self._coordination.tree("/")
        cluster_id = loading.stored_cluster_id(tree) or layout.encode_uuid(self._entropy.uuid())
        image = loading.load_image(tree, me, cluster_id, self._config)
        wall_ms = self._clock.wall_ms()
        opening = loading.opening_operations(tree, me, cluster_id, wall_ms)
        self._controller_epoch = loading.controller_epoch(tree) + 1
        if new_epochs:
            image, bumps = loading.bump_leader_epochs(image, self._controller_epoch)
            opening += bumps
        await self._coordination.commit(*opening)
        self._image = image

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicResult]:
        """One result for each different name, in the order of first mention."""
        return await self._change(
            lambda image: decide_create(
                image, topics, self._entropy, self._controller_epoch, self._partitions_max
            ),
            validate_only,
        )

    async def delete_topics(self, topics: Sequence[str | uuid.UUID]) -> list[TopicResult]:
        """One result for each different name or topic id, in the order of first mention."""
        return await self._change(lambda image: decide_delete(image, topics))

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[TopicResult]:
        """One result for each different topic, in the order of first mention."""
        return await self._change(
            lambda image: decide_create_partitions(
                image, topics, self._entropy, self._controller_epoch, self._partitions_max
            ),
            validate_only,
        )

    async def alter_configs(
        self, changes: Sequence[FullChange], *, validate_only: bool = False
    ) -> list[AlterResult]:
        """Replace all settings of each resource; one result for each change, in order."""
        return await self._change(
            lambda image: decide_full(image, changes, self.node_id), validate_only
        )

    async def incremental_alter_configs(
        self, changes: Sequence[IncrementalChange], *, validate_only: bool = False
    ) -> list[AlterResult]:
        """Edit single settings; one result for each change, in order."""
        return await self._change(
            lambda image: decide_incremental(image, changes, self.node_id), validate_only
        )

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids nobody was given before, or will be given again."""
        return await self._to_the_end(self._allocate())

    async def close(self) -> None:
        """Finish what has begun, then end the session: this broker is registered no more."""
        async with self._lock:
            await self._coordination.close()

    async def _change(
        self, decide: Callable[[Image], Decision[R]], validate_only: bool = False
    ) -> list[R]:
        return await self._to_the_end(self._decide_and_tell(decide, validate_only))

    async def _decide_and_tell(
        self, decide: Callable[[Image], Decision[R]], validate_only: bool
    ) -> list[R]:
        async with self._lock:
            decision = decide(self.image)
            if validate_only or not decision.operations:
                return decision.results
            await self._coordination.commit(*decision.operations)
            self._image = decision.image
            told = [listener(each) for each in decision.changes for listener in self._listeners]
        for following in told:
            if following is not None:
                await following
        return decision.results

    async def _allocate(self) -> range:
        async with self._lock:
            while True:
                node = await self._coordination.get(layout.PRODUCER_ID_BLOCK)
                if node is None:
                    raise BrokenInvariantError("the cluster has not been started")
                block, write = next_block(node, self.node_id)
                try:
                    await self._coordination.commit(write)
                except BadVersionError:
                    continue  # Another broker took that block; ask for the one after it.
                return block

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """A caller that goes away (a closed connection) must not stop a commit half way between
        store and image."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)
