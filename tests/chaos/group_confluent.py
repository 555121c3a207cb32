"""librdkafka's consumers in groups: they come and go, read, and commit what they have read."""

import random
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tests.chaos.group_raw import Stage
from tests.chaos.group_raw_classic import SESSION_MS
from tests.chaos.load import Worker
from tests.chaos.talk import Place

_AWAY_S: Final = (0.0, 0.3)
_CLASSIC: Final = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 100}
KINDS: Final[dict[str, dict[str, Any]]] = {
    "eager": {**_CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {**_CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
_COMMON: Final = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 20,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "log_level": 0,
}
_PASSING: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""What librdkafka tells of a broker that stops or has just started; it asks again by itself."""


class ConfluentMember(Worker):
    """One consumer after another in one thread."""

    stays_s = (1.0, 4.0)

    def __init__(self, group: str, kind: str, number: int, stage: Stage, seed: str) -> None:
        super().__init__(f"{group}.{number}", stage.journal)
        self.group = group
        self.stage = stage
        self._random = random.Random(f"{seed}/{self.name}")
        self._settings = {
            "bootstrap.servers": stage.bootstrap_servers,
            "group.id": group,
            **_COMMON,
            **KINDS[kind],
        }

    def work(self) -> None:
        while not self.stopping.is_set():
            consumer = Consumer(self._settings)
            try:
                if self._knows_topics(consumer):
                    consumer.subscribe(list(self.stage.topics), on_assign=self._assigned)
                    self._consume(consumer)
            finally:
                consumer.close()
            self.stopping.wait(self._random.uniform(*_AWAY_S))

    @staticmethod
    def _knows_topics(consumer: Consumer) -> bool:
        """Look at the topics first; False when nobody answers.

        By the consumer protocol librdkafka is given ids of topics. While it does not know their
        names it says that it owns nothing, so partitions it was given may go to others; when the
        names come before the answer that tells it so, it takes them all the same. Then two members
        own a partition for a moment, and a coordinator that believes its members (as Kafka's does)
        can not help it.
        """
        try:
            consumer.list_topics(timeout=5.0)
        except KafkaException:
            return False
        return True

    def _assigned(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.stage.journal.count("assignments")

    def _consume(self, consumer: Consumer) -> None:
        leaves_at = time.monotonic() + self._random.uniform(*self.stays_s)
        while not self.stopping.is_set():
            if time.monotonic() > leaves_at and not self.stage.calm.is_set():
                return
            ends: dict[Place, int] = {}
            for message in consumer.consume(200, timeout=0.05):
                self._take(message, ends)
            if ends:
                self._commit(consumer, ends)

    def _take(self, message: Message, ends: dict[Place, int]) -> None:
        problem = message.error()
        if problem is not None:
            if not problem.retriable() and problem.code() not in _PASSING:
                self.journal.complain(f"{self.name}: {problem}")
            return
        place = str(message.topic()), int(message.partition() or 0)
        offset = int(message.offset() or 0)
        self.stage.journal.consume(self.group, place, offset)
        ends[place] = offset + 1

    def _commit(self, consumer: Consumer, ends: dict[Place, int]) -> None:
        """What is refused is read again by whoever owns the partition next."""
        journal = self.stage.journal
        journal.try_commit(self.group, ends)
        rows = [
            TopicPartition(*place, offset, metadata=str(offset)) for place, offset in ends.items()
        ]
        try:
            answered = consumer.commit(offsets=rows, asynchronous=False) or []
        except KafkaException:
            journal.count("commits of librdkafka refused")
            return
        done = {
            (each.topic, each.partition): ends[each.topic, each.partition]
            for each in answered
            if each.error is None
        }
        if done:
            journal.commit(self.group, done)
