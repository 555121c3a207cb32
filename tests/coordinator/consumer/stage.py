"""A shard of consumer groups alone on a stage: virtual time, topics at will, and its own log."""

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from barnabas.cluster.image import Image, PartitionState, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.group_settings import GroupSettings
from barnabas.config.topic_config import TopicConfig
from barnabas.coordinator.group.asks import (
    Assignment,
    Client,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.groups import ConsumerGroups
from barnabas.coordinator.runtime.turn import TimerKey, Turn
from barnabas.wire.stored import Ignored, Stored, decode, encode

WALL_MS = 1_700_000_000_000
CLIENT = Client(id="client", host="/127.0.0.1")
Partition = tuple[str, int]


class SeededEntropy:
    """The same values every time."""

    def __init__(self) -> None:
        self._random = random.Random(1)

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128) | 1)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def sometimes(self, name: str) -> bool:
        return False


class Stage:
    """Everything around the groups. `log` is all that survives a `reload`."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.entropy = SeededEntropy()
        self.monotonic_ms = 0
        self.wall_ms = WALL_MS
        self.image = Image(
            cluster_id="c", controller_id=1, brokers={}, config=BrokerConfig({"node.id": "1"})
        )
        self.names: dict[bytes, str] = {}
        """Of every topic there ever was, by its id."""
        self.log: list[Stored] = []
        self.written = 0
        """Records of the last turn."""
        self._begin()

    def _begin(self) -> None:
        self.timers: dict[TimerKey, int] = {}
        self.groups: dict[str, Any] = {}
        self.shard = ConsumerGroups(self.groups, lambda: self.settings, self.entropy)

    def turn(self, decide: Callable[[Turn[Stored]], Any]) -> Any:
        """Let the shard decide, and do what it left on the turn."""
        turn: Turn[Stored] = Turn(self.wall_ms, self.monotonic_ms, self.image, self.shard.apply)
        before = len(turn.records)
        try:
            result = decide(turn)
        except Exception:
            assert not turn.records, "a refused request changes nothing"
            assert not turn.timers
            raise
        self.written = len(turn.records) - before
        self.log.extend(turn.records)
        for key, delay_ms in turn.timers.items():
            if delay_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = self.monotonic_ms + delay_ms
        return result

    # --- time ------------------------------------------------------------------------------------

    def after(self, ms: int) -> Self:
        """Let time pass; timers fire when they are due, in order."""
        end_ms = self.monotonic_ms + ms
        while True:
            due = min(self.timers.items(), key=lambda item: (item[1], item[0]), default=None)
            if due is None or due[1] > end_ms:
                break
            key, at_ms = due
            del self.timers[key]
            self._move_to(max(at_ms, self.monotonic_ms))
            self._fire(key)
        self._move_to(end_ms)
        return self

    def _fire(self, key: TimerKey) -> None:
        self.turn(lambda turn: self.shard.fire(turn, key))

    def _move_to(self, monotonic_ms: int) -> None:
        self.wall_ms += monotonic_ms - self.monotonic_ms
        self.monotonic_ms = monotonic_ms

    def reload(self) -> None:
        """Drop the shard; load it from the last record of each key, through their bytes."""
        last: dict[bytes, bytes | None] = {}
        for record in self.log:
            key, value = encode(record)
            last.pop(key, None)
            last[key] = value
        self._begin()
        for key, value in last.items():
            stored = decode(key, value)
            assert not isinstance(stored, Ignored)
            self.shard.apply(stored)
        self.turn(self.shard.loaded)

    # --- topics ----------------------------------------------------------------------------------

    def topic(self, name: str, partitions: int) -> bytes:
        """Create a topic, or let it grow."""
        old = self.image.topics.get(name)
        state = PartitionState(1, 0, (1,), (1,))
        topic = Topic(
            name, old.id if old else self.entropy.uuid(), (state,) * partitions, {}, TopicConfig()
        )
        self.names[topic.id_bytes] = name
        self.image = self.image.with_topics([topic])
        self.turn(lambda turn: self.shard.topics_changed(turn, [topic]))
        return topic.id_bytes

    def delete(self, name: str) -> None:
        topic = self.image.topics[name]
        self.image = self.image.without_topics([topic])
        self.turn(lambda turn: self.shard.topics_deleted(turn, [topic]))

    # --- asking ----------------------------------------------------------------------------------

    def ask(
        self, member_id: str, epoch: int, group_id: str = "g", **said: Any
    ) -> ConsumerHeartbeatAnswer:
        """One heartbeat; `said` are the fields of ConsumerHeartbeat."""
        said.setdefault("client", CLIENT)
        ask = ConsumerHeartbeat(group_id=group_id, member_id=member_id, member_epoch=epoch, **said)
        answer = self.turn(lambda turn: self.shard.heartbeat(turn, ask))
        assert isinstance(answer, ConsumerHeartbeatAnswer)
        return answer

    def join(self, member_id: str, *topics: str, **said: Any) -> ConsumerHeartbeatAnswer:
        """Join by names, unless `topic_regex` is said."""
        said.setdefault("rebalance_timeout_ms", 60_000)
        said.setdefault("owned", {})
        if topics or "topic_regex" not in said:
            said.setdefault("topic_names", topics)
        return self.ask(member_id, 0, **said)

    def owning(self, **partitions: tuple[int, ...]) -> dict[bytes, tuple[int, ...]]:
        """An assignment, by the names of topics that exist."""
        return {self.image.topics[name].id_bytes: each for name, each in partitions.items()}

    def named(self, assignment: Assignment | None) -> dict[str, tuple[int, ...]] | None:
        """An assignment with the names of its topics."""
        if assignment is None:
            return None
        return {self.names[each]: numbers for each, numbers in assignment.items()}

    # --- looking ---------------------------------------------------------------------------------

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def describe(self, group_id: str = "g") -> DescribedConsumerGroup:
        return self.shard.describe(group_id, self.image)

    def described(self, member_id: str) -> DescribedConsumer:
        return next(each for each in self.describe().members if each.member_id == member_id)

    def observable(self) -> dict[str, DescribedConsumerGroup]:
        """All that descriptions show and that a reload must not change, members in order."""
        return {
            group_id: replace(
                self.describe(group_id),
                last_rebalance=None,
                members=tuple(
                    sorted(self.describe(group_id).members, key=lambda each: each.member_id)
                ),
            )
            for group_id in self.groups
        }
