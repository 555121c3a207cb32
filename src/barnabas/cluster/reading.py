"""What a broker reads of the tree once it is told that something there has changed.

Nothing is read at one moment, so each answer holds for some moment since it was asked for; what
changes in between is told of again.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from barnabas.cluster import announcements, layout, loading
from barnabas.cluster.announcements import Announcement, Heard
from barnabas.cluster.image import NO_CONTROLLER, BrokerNode, Image, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import Coordination, Node

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 256
"""Requests under way together: enough to hide the way to the store, few enough to be fair."""

_TOPICS_AT_ONCE: Final = 32
"""Whole topics, of which each takes some requests."""

_ATTEMPTS: Final = 5
"""How often something is read again that went away or changed in between."""


class Reading:
    """Reads from the store, as values of the cluster."""

    def __init__(self, coordination: Coordination, node_id: int, static: BrokerConfig) -> None:
        self._coordination = coordination
        self._node_id = node_id
        self._static = static
        self._complaint = ""

    async def everything(self, heard: Heard) -> tuple[Image, loading.Tree]:
        """The whole tree, no older than this call, and what it says.

        Raises BarnabasError when it does not hold together although nobody is changing it.
        """
        await self._coordination.sync()
        while True:
            names = await self.changes()
            tree = await self._coordination.tree("/")
            try:
                image = loading.load_image(tree, self._node_id, self._static)
            except BarnabasError:
                if await self.changes() == names:
                    raise
                continue
            heard.begin(names)
            return image, tree

    async def changes(self) -> list[str]:
        """The names of all change nodes that there are, in order."""
        return [
            name
            for name in await self._coordination.children(layout.CHANGES)
            if layout.is_change(name)
        ]

    async def announced(self, names: Sequence[str]) -> list[Announcement] | None:
        """What these change nodes say; None: one of them is gone, or says nothing that can be
        understood, so that anything may have changed."""
        nodes = await self._nodes(f"{layout.CHANGES}/{name}" for name in names)
        said = []
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                return None
            try:
                said.append(announcements.decode(name, node.data))
            except BarnabasError as error:
                self._complain(f"{error} Everything is read instead.")
                return None
        return said

    def _complain(self, problem: str) -> None:
        """Once, though it may take several attempts to read everything."""
        if problem != self._complaint:
            _log.warning("%s", problem)
        self._complaint = problem

    async def topics(
        self, told: Announcement, known: Mapping[str, Topic], config: BrokerConfig
    ) -> dict[str, Topic | None]:
        """The topics of which something is told; None: there is no such topic."""
        whole = set(told.topics)
        changed: dict[str, Sequence[int]] = {}
        for name, numbers in told.partitions.items():
            topic = known.get(name)
            if topic is None or max(numbers, default=0) >= len(topic.partitions):
                whole.add(name)
            elif name not in whole:
                changed[name] = sorted(numbers)
        altered = _named(told.configs, "topics")
        whole.update(name for name in altered if name not in known)
        some = await self._with_states(known, changed)
        some |= await self._with_settings(
            {name: some.get(name) or known[name] for name in altered if name not in whole}, config
        )
        return some | await self._whole(sorted(whole), config)

    async def _whole(self, names: Sequence[str], config: BrokerConfig) -> dict[str, Topic | None]:
        found: dict[str, Topic | None] = {}
        for start in range(0, len(names), _TOPICS_AT_ONCE):
            portion = names[start : start + _TOPICS_AT_ONCE]
            topics = await asyncio.gather(*(self.topic(name, config) for name in portion))
            found.update(zip(portion, topics, strict=True))
        return found

    async def topic(self, name: str, config: BrokerConfig) -> Topic | None:
        """The topic of this name, all of it."""
        path = layout.topic_path(name)
        for _ in range(_ATTEMPTS):
            node = await self._coordination.get(path)
            if node is None or layout.is_pending(node.data):
                return None
            _, replicas = layout.decode_topic(name, node.data)
            settings, *states = await self._nodes(
                [
                    layout.topic_config_path(name),
                    *(layout.state_path(name, number) for number in range(len(replicas))),
                ]
            )
            again = await self._coordination.get(path)
            # Removed and made again in between: some of this belongs to the other one.
            same = again is not None and again.created == node.created
            present = [state for state in states if state is not None]
            if same and settings is not None and len(present) == len(states):
                return loading.load_topic(name, node, settings, present, config)
        raise BarnabasError(f"The cluster's store is damaged: topic {name} is not complete.")

    async def _with_states(
        self, known: Mapping[str, Topic], changed: Mapping[str, Sequence[int]]
    ) -> dict[str, Topic | None]:
        """All at once: when a broker dies, it leads something of every topic."""
        places = [(name, number) for name, numbers in changed.items() for number in numbers]
        nodes = await self._nodes(layout.state_path(*each) for each in places)
        states = dict(zip(places, nodes, strict=True))
        # After them, so that they are known to be of the topic that is there now.
        topics = await self._nodes(map(layout.topic_path, changed))
        return {
            name: _with_states(known[name], node, {n: states[name, n] for n in changed[name]})
            for name, node in zip(changed, topics, strict=True)
        }

    async def _with_settings(
        self, topics: Mapping[str, Topic], config: BrokerConfig
    ) -> dict[str, Topic | None]:
        nodes = await self._nodes(map(layout.topic_config_path, topics))
        found: dict[str, Topic | None] = {}
        for topic, node in zip(topics.values(), nodes, strict=True):
            found[topic.name] = topic
            if node is not None:
                overrides = loading.topic_settings(topic.name, node)
                settings = TopicConfig.from_maps(overrides, config.topic_defaults)
                found[topic.name] = replace(topic, overrides=overrides, config=settings)
        return found

    async def overrides(
        self, told: Announcement, known: Mapping[str, Mapping[str, str]]
    ) -> tuple[Mapping[str, Mapping[str, str]], BrokerConfig] | None:
        """Settings of brokers, and this broker's own with them; None: nothing is told of them."""
        names = _named(told.configs, "brokers")
        if not names:
            return None
        nodes = await self._nodes(map(layout.broker_config_path, names))
        found = dict(known)
        for name, node in zip(names, nodes, strict=True):
            if node is not None:
                found[name] = loading.broker_settings(name, node)
        return found, loading.effective_config(self._static, found, self._node_id)

    async def brokers(self) -> Mapping[int, BrokerNode]:
        """The live brokers."""
        names = await self._coordination.children(layout.BROKER_IDS)
        nodes = await self._nodes(f"{layout.BROKER_IDS}/{name}" for name in names)
        pairs = zip(names, nodes, strict=True)
        return loading.load_brokers([(name, node) for name, node in pairs if node is not None])

    async def controller(self) -> tuple[int, int]:
        """Who the controller is, and in which term."""
        node = await self._coordination.get(layout.CONTROLLER)
        epoch = await self._coordination.get(layout.CONTROLLER_EPOCH)
        broker = layout.decode_controller(node.data) if node else NO_CONTROLLER
        return broker, layout.decode_controller_epoch(epoch.data) if epoch else 0

    async def _nodes(self, paths: Iterable[str]) -> list[Node | None]:
        wanted = list(paths)
        found: list[Node | None] = []
        for start in range(0, len(wanted), _AT_ONCE):
            portion = wanted[start : start + _AT_ONCE]
            found += await asyncio.gather(*map(self._coordination.get, portion))
        return found


def _with_states(
    topic: Topic, node: Node | None, states: Mapping[int, Node | None]
) -> Topic | None:
    """`topic` with other states of some partitions; `node` is the topic's own."""
    if node is None or layout.is_pending(node.data):
        return None
    present = {number: state for number, state in states.items() if state is not None}
    if len(present) < len(states) or layout.decode_topic(topic.name, node.data)[0] != topic.id:
        return topic  # It is gone, and the announcement of that comes next.
    partitions = list(topic.partitions)
    for number, state in present.items():
        path, replicas = layout.state_path(topic.name, number), partitions[number].replicas
        partitions[number] = layout.decode_state(path, state.data, replicas, state.version)
    return replace(topic, partitions=tuple(partitions))


def _named(configs: Iterable[str], kind: str) -> list[str]:
    prefix = f"{kind}/"
    return sorted(each[len(prefix) :] for each in configs if each.startswith(prefix))
