"""A client of the simulated cluster: it finds leaders and coordinators, and asks them by `link`."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

from barnabas.link.aio import Link, connect
from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.asking import request
from barnabas.sim.network import on_machine

METADATA: Final = 3
CREATE_TOPICS: Final = 19
FIND_COORDINATOR: Final = 10
PATIENCE_S: Final = 6.0
"""How long a client waits for an answer before it asks elsewhere."""
_AGAIN_S: Final = (0.05, 0.6)

Address = tuple[str, int]


class NoAnswerError(Exception):
    """Nobody has answered: what was asked may have been done, or not."""


class Client:
    """One client on one machine, with a connection to each broker that it needs."""

    def __init__(
        self, machine: str, brokers: Mapping[int, Address], seed: int | str, name: str
    ) -> None:
        self.machine = machine
        self.name = name
        self.chance = random.Random(f"{seed}/{name}")
        self._brokers = brokers
        self._links: dict[int, Link] = {}
        self._leaders: dict[TopicPartition, tuple[int, int]] = {}

    async def ask(self, broker: int, key: int, version: int, question: Any) -> Any:
        """One question to one broker."""
        link = await self.link(broker)
        try:
            return await link.call(key, version, question)
        except (OSError, DecodeError) as error:
            await self.hang_up(broker)
            raise NoAnswerError(str(error)) from error

    async def ask_any(self, key: int, version: int, question: Any) -> Any:
        """One question to whoever answers it."""
        while True:
            try:
                return await self.ask(self.any_broker(), key, version, question)
            except NoAnswerError:
                await self.rest()

    def any_broker(self) -> int:
        """Some broker."""
        return self.chance.choice(list(self._brokers))

    def other_than(self, broker: int) -> int:
        """Some other broker."""
        return self.chance.choice([each for each in self._brokers if each != broker])

    async def link(self, broker: int) -> Link:
        """The connection to a broker, opened if need be."""
        link = self._links.get(broker)
        if link is not None and link.is_open:
            return link
        try:
            with on_machine(self.machine):
                link = await connect(
                    *self._brokers[broker], client_id=self.name, timeout_s=PATIENCE_S
                )
        except OSError as error:
            raise NoAnswerError(str(error)) from error
        self._links[broker] = link
        return link

    async def hang_up(self, broker: int) -> None:
        """The connection is of no use any more."""
        link = self._links.pop(broker, None)
        if link is not None:
            await link.close()

    async def rest(self) -> None:
        """Wait a moment before asking again."""
        await asyncio.sleep(self.chance.uniform(*_AGAIN_S))

    # Leaders.

    async def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Who leads it, and since which epoch; waits until somebody does."""
        while True:
            known = self._leaders.get(partition)
            if known is not None and known[0] in self._brokers:
                return known
            await self.refresh(partition.topic)
            if partition not in self._leaders or self._leaders[partition][0] < 0:
                await self.rest()

    def forget_leader(self, partition: TopicPartition) -> None:
        """It may be another by now. The epoch is kept: nobody shall lead us back."""
        known = self._leaders.get(partition)
        if known is not None:
            self._leaders[partition] = (-1, known[1])

    async def refresh(self, topic: str) -> None:
        """Ask some broker who leads what."""
        wanted = request(METADATA, {"topics": [{"name": topic}]})
        try:
            answer = await self.ask(self.any_broker(), METADATA, 12, wanted)
        except NoAnswerError:
            return
        for each in answer.topics:
            for row in each.partitions:
                self._learn(TopicPartition(topic, row.partition_index), row)

    def _learn(self, partition: TopicPartition, row: Any) -> None:
        epoch = self._leaders.get(partition, (-1, -1))[1]
        if row.leader_epoch >= epoch:
            self._leaders[partition] = (int(row.leader_id), int(row.leader_epoch))

    # What is asked once.

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Have a topic of three replicas made."""
        rows = [{"name": key, "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 3}
        wanted = request(CREATE_TOPICS, {"topics": [topic | {"configs": rows}], "timeout": 5_000})
        while True:
            try:
                answer = await self.ask(self.any_broker(), CREATE_TOPICS, 7, wanted)
            except NoAnswerError:
                await self.rest()
                continue
            (result,) = answer.topics
            if result.error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
                return
            await self.rest()

    async def coordinator_of(self, key: str, kind: int) -> int:
        """The broker that coordinates a group (0) or a transactional id (1)."""
        wanted = request(FIND_COORDINATOR, {"key_type": kind, "coordinator_keys": [key]})
        while True:
            try:
                answer = await self.ask(self.any_broker(), FIND_COORDINATOR, 6, wanted)
            except NoAnswerError:
                await self.rest()
                continue
            (found,) = answer.coordinators
            if found.error_code is ErrorCode.none and int(found.node_id) in self._brokers:
                return int(found.node_id)
            await self.rest()
