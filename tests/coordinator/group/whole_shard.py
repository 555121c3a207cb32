"""A whole shard on a stage: both kinds of groups, their offsets, topics, time, and a log."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from barnabas.cluster.image import Image, PartitionState, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.group_settings import GroupSettings
from barnabas.config.topic_config import TopicConfig
from barnabas.coordinator.group.shard import GroupShard
from barnabas.coordinator.runtime.turn import PARKED, TimerKey, Turn, Waiter
from barnabas.model.errors import KafkaError
from barnabas.sim.entropy import SimEntropy
from barnabas.wire.stored import Ignored, Stored, decode, encode

DAY_MS = 24 * 3600 * 1000
WALL_MS = 1_700_000_000_000
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)


class WholeShard:
    """Events in; answers out. What was written is all that a `reload` keeps."""

    def __init__(self) -> None:
        self._entropy = SimEntropy(1)
        self.elapsed_ms = 0
        self.image = Image(
            cluster_id="c", controller_id=1, brokers={}, config=BrokerConfig({"node.id": "1"})
        )
        self._live: dict[bytes, bytes] = {}
        self._ids = 0
        self.reload()

    def _begin(self) -> None:
        self._timers: dict[TimerKey, int] = {}
        self._answers: dict[Waiter, Any] = {}
        self.shard = GroupShard(lambda: SETTINGS, self._entropy)

    def ask(self, decide: Callable[[GroupShard, Turn[Stored], Waiter], Any]) -> Any:
        """One turn; the answer, when it comes within the turn."""
        waiter = Waiter()
        turn: Turn[Stored] = Turn(
            WALL_MS + self.elapsed_ms, self.elapsed_ms, self.image, self.shard.apply
        )
        try:
            answer = decide(self.shard, turn, waiter)
        except KafkaError:
            assert not turn.records, "a refused request changes nothing"
            raise
        for record in turn.records:
            self._store(record)
        for key, delay_ms in turn.timers.items():
            self._timers.pop(key, None)
            if delay_ms is not None:
                self._timers[key] = self.elapsed_ms + delay_ms
        replies = dict(turn.replies)
        if answer is PARKED:
            answer = replies.get(waiter)
            if isinstance(answer, KafkaError):
                raise answer
        return answer

    def _store(self, record: Stored) -> None:
        key, value = encode(record)
        self._live.pop(key, None)
        if value is not None:
            self._live[key] = value

    def reload(self) -> None:
        """As after a crash: only the last record of each key is left."""
        self._begin()
        for key, value in self._live.items():
            record = decode(key, value)
            assert not isinstance(record, Ignored)
            self.shard.apply(record)
        self.ask(lambda shard, turn, _: shard.loaded(turn))

    def pass_time(self, milliseconds: int) -> None:
        """Every timer that is due comes, in order."""
        until = self.elapsed_ms + milliseconds
        while self._timers:
            key = min(self._timers, key=lambda each: (self._timers[each], each))
            if self._timers[key] > until:
                break
            self.elapsed_ms = max(self.elapsed_ms, self._timers.pop(key))
            self._fire(key)
        self.elapsed_ms = until

    def _fire(self, key: TimerKey) -> None:
        self.ask(lambda shard, turn, _: shard.fire(turn, key))

    def create_topic(self, name: str) -> None:
        self._ids += 1
        partitions = tuple(PartitionState(1, 0, (1,), (1,)) for _ in range(2))
        topic = Topic(name, uuid.UUID(int=self._ids), partitions, {}, TopicConfig.from_maps({}, {}))
        self.image = self.image.with_topics([topic])
        self.ask(lambda shard, turn, _: shard.topics_changed(turn, [topic]))

    def delete_topic(self, name: str, *, told: bool) -> None:
        """`told`: else the broker dies before its groups hear of it."""
        topic = self.image.topics[name]
        self.image = replace(self.image.without_topics([topic]))
        if told:
            self.ask(lambda shard, turn, _: shard.topics_deleted(turn, [topic]))

    @property
    def stored_keys(self) -> int:
        """How many keys a reload would read."""
        return len(self._live)
