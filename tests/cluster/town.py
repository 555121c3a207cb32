"""Several brokers' clusters on one simulated ZooKeeper, and what must hold after every commit."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from barnabas.cluster import layout
from barnabas.cluster.changes import Change
from barnabas.cluster.controller import decide_elections
from barnabas.cluster.errors import NotControllerError
from barnabas.cluster.image import BrokerNode, Image, PartitionState, Topic
from barnabas.cluster.loading import load_image
from barnabas.cluster.service import Cluster
from barnabas.cluster.topics import NewTopic, TopicResult
from barnabas.config.broker_config import BrokerConfig
from barnabas.model.errors import ErrorCode
from barnabas.model.stops import Stop
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.zookeeper import Ensemble, Transaction

SESSION_S = 6.0


class Town:
    """Brokers by number; each has a machine of its own."""

    def __init__(self, loop: SimLoop, **settings: str) -> None:
        self.loop = loop
        self.ensemble = Ensemble(loop, session_timeout_s=SESSION_S)
        self.brokers: dict[int, Cluster] = {}
        self.heard: dict[int, list[Change]] = {}
        self.failures: dict[int, list[str]] = {}
        self.watchman = Watchman(self.ensemble)
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._entropy = SimEntropy(loop.seed)

    async def start(
        self,
        *numbers: int,
        clean: bool = True,
        stop: Stop | None = None,
        directory: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Start these brokers, one after the other."""
        for number in numbers:
            await self._cluster(number).start(
                f"host{number}",
                9092,
                directory=directory or f"dir-{number}",
                stop=stop or (Stop.CLEAN if clean else Stop.LOSSY),
                cluster_id=cluster_id,
            )

    def _cluster(self, number: int) -> Cluster:
        config = BrokerConfig({**self._settings, "node.id": str(number)})
        failures = self.failures.setdefault(number, [])
        cluster = Cluster(
            self.ensemble.client(machine(number)),
            config,
            self._entropy,
            SimClock(self.loop),
            remote=self,
            failed=failures.append,
        )
        self.brokers[number] = cluster
        heard = self.heard[number] = []
        cluster.subscribe(heard.append)
        return cluster

    async def create_topics(
        self, controller: BrokerNode, topics: Sequence[NewTopic]
    ) -> list[TopicResult]:
        """The way from any broker to the controller."""
        there = self.brokers.get(controller.id)
        if there is None or not there.is_controller:
            raise NotControllerError
        return await there.create_topics(topics)

    def kill(self, number: int) -> None:
        """The process dies; its session runs out by itself."""
        self.ensemble.kill(machine(number))
        self.brokers.pop(number).abandon()

    async def stop(self, number: int) -> None:
        """In an orderly way."""
        await self.brokers[number].leave()
        await self.brokers.pop(number).close()

    async def create(self, name: str, *replicas: Sequence[int], **configs: str) -> None:
        """A topic with these replicas for each partition, known to all brokers."""
        await self.settle()
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name, assignments=list(enumerate(replicas)), configs=settings)
        (result,) = await self.controller.create_topics([new])
        assert result.code is ErrorCode.none, result.message
        await self.until(lambda: all(name in each.image.topics for each in self.brokers.values()))

    @property
    def controller(self) -> Cluster:
        """The one broker that holds the office."""
        (found,) = [each for each in self.brokers.values() if each.is_controller]
        return found

    def other_than(self, *numbers: int) -> Cluster:
        """Some broker that is none of these."""
        return next(each for number, each in self.brokers.items() if number not in numbers)

    async def until(self, holds: Callable[[], bool], within_s: float = 60.0) -> None:
        """Let time go on until that holds."""
        deadline = self.loop.time() + within_s
        while not holds():
            assert self.loop.time() < deadline, f"still not: {self.states()}"
            await asyncio.sleep(0.01)

    async def settle(self) -> None:
        """Until every broker knows what is stored, and there is nothing left to decide."""
        await self.until(self._is_settled)

    def _is_settled(self) -> bool:
        stored = self.stored()
        images = [each.image for each in self.brokers.values()]
        return (
            stored.controller_id in self.brokers
            and self.brokers[stored.controller_id].is_controller
            and set(stored.brokers) == set(self.brokers)
            and all(agree(image, stored) for image in images)
            and all(each.in_touch() for each in self.brokers.values())
            and not decide_elections(self.controller.image, None, 0).writes
        )

    def stored(self) -> Image:
        """What the store says."""
        return load_image(self.ensemble.below("/"), -1, BrokerConfig(self._settings))

    def state(self, topic: str, number: int = 0) -> PartitionState:
        """A partition's state as it is stored."""
        return self.states()[topic, number]

    def states(self) -> dict[tuple[str, int], PartitionState]:
        """Every partition's."""
        return {
            (topic.name, number): state
            for topic in self.stored().topics.values()
            for number, state in enumerate(topic.partitions)
        }

    async def led_by(
        self, leader: int, topic: str, number: int = 0, within_s: float = 60.0
    ) -> PartitionState:
        """Wait until a partition has that leader."""
        await self.until(lambda: self.state(topic, number).leader == leader, within_s)
        return self.state(topic, number)


def machine(number: int) -> str:
    return f"b{number}"


def agree(image: Image, stored: Image) -> bool:
    """Whether a broker's image is what is stored; each has a configuration of its own."""

    def told(each: Image) -> tuple[object, ...]:
        topics = {
            name: (topic.id, topic.partitions, topic.overrides)
            for name, topic in each.topics.items()
        }
        return (
            each.cluster_id,
            each.controller_id,
            each.controller_epoch,
            dict(each.brokers),
            each.broker_overrides,
            topics,
        )

    return told(image) == told(stored)


class Watchman:
    """Looks at every commit, and at every state it leaves behind."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._states: dict[str, tuple[int, PartitionState]] = {}
        self._replicas: dict[str, Mapping[str, Sequence[int]]] = {}
        self._term = 0
        self.unclean: list[str] = []
        """Elections of a leader that was neither in sync nor eligible."""
        self.sleeps = False
        """While strangers write what makes no sense."""
        ensemble.on_commit(self._look)

    def _look(self, transaction: Transaction) -> None:
        if self.sleeps:
            return
        for path, znode in transaction.changes.items():
            parts = path.split("/")
            if znode is None:
                self._states.pop(path, None)
            elif path.startswith(layout.TOPICS + "/") and len(parts) == 4:
                self._replicas[parts[3]] = json.loads(znode.node.data)["partitions"]
            elif path == layout.CONTROLLER_EPOCH:
                assert int(znode.node.data) == self._term + 1
                self._term += 1
            elif path == layout.LAST_COMMIT and znode.node.data:
                term = int(znode.node.data.split(b"-")[1])
                assert term == self._term, "a controller wrote after the next one took office"
        for path, znode in transaction.changes.items():
            if path.endswith("/state") and znode is not None:
                self._look_at_state(path, znode.node.data, znode.node.version, znode.node.created)

    def _look_at_state(self, path: str, data: bytes, version: int, created: int) -> None:
        found = layout.decode_state(path, data, (), version)
        parts = path.split("/")
        replicas = self._replicas.get(parts[3], {}).get(parts[5])
        assert found.isr, f"{path}: nobody is in sync"
        assert len(set(found.isr)) == len(found.isr)
        assert found.leader == -1 or found.leader in found.isr, f"{path}: {found}"
        assert not set(found.eligible) & set(found.isr), f"{path}: {found}"
        if replicas is not None:
            assert found.replicas == tuple(replicas), f"{path}: not what the topic's node says"
            assert {*found.isr, *found.eligible} <= set(replicas), f"{path}: {found}"
        known = self._states.get(path)
        if known is not None and known[0] == created:
            before = known[1]
            assert version == before.partition_epoch + 1
            assert found.leader_epoch >= before.leader_epoch
            if found.leader != before.leader:
                assert found.leader_epoch == before.leader_epoch + 1, f"{before} to {found}"
                if found.leader not in (-1, *before.isr, *before.eligible):
                    self.unclean.append(path)
        self._states[path] = (created, found)


def in_town(
    scenario: Callable[[Town], Coroutine[Any, Any, None]], seed: int | str = 1, **settings: str
) -> None:
    """Run a scenario in a town of its own."""

    async def main(loop: SimLoop) -> None:
        town = Town(loop, **settings)
        await scenario(town)
        for cluster in town.brokers.values():
            cluster.abandon()

    run(main, seed)


def topic_of(town: Town, number: int, name: str) -> Topic:
    """A topic as one broker knows it."""
    return town.brokers[number].image.topics[name]
