"""Clients that go on through every death of the broker: librdkafka's producers and consumers."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from tests.chaos.journal import Journal, Mark, mark_of, value_of
from tests.chaos.talk import Place

_SOON: Final = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "log_level": 0,
}
"""A dead broker is back within a second: look for it often, and say nothing of its absence."""
_UNANSWERED_MAX: Final = 4_000
_DELIVERY_MS_MAX: Final = 300_000
_PAUSE_S: Final = 0.02
_END_S_MAX: Final = 60.0


@dataclass(frozen=True)
class Stream:
    """Where a producer writes, and how."""

    topic: str
    partitions: int
    idempotent: bool
    settings: Mapping[str, Any]
    burst: int = 10
    """Records between two pauses."""


class Worker(threading.Thread):
    """A client in a thread of its own; what goes wrong in it becomes a complaint."""

    def __init__(self, name: str, journal: Journal) -> None:
        super().__init__(name=name, daemon=True)
        self.journal = journal
        self.stopping = threading.Event()

    def run(self) -> None:
        """Work until told to stop."""
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - the run fails with it
            self.journal.complain(f"{self.name}: {type(error).__name__}: {error}")

    def work(self) -> None:
        """What this client does; looks at `stopping` often."""
        raise NotImplementedError

    def end(self) -> None:
        """Tell it to stop and wait until it has."""
        self.stopping.set()
        self.join(_END_S_MAX)
        if self.is_alive():
            self.journal.complain(f"{self.name} does not stop")


class ProducerWorker(Worker):
    """Sends numbered records round the partitions and notes what is acknowledged."""

    def __init__(self, name: str, journal: Journal, address: str, stream: Stream) -> None:
        super().__init__(name, journal)
        self._stream = stream
        self._unanswered = 0
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": stream.idempotent,
                "acks": -1,
                "linger.ms": 2,
                "batch.num.messages": 40,
                "delivery.timeout.ms": _DELIVERY_MS_MAX,
                "error_cb": self._failed,
                **_SOON,
                **stream.settings,
            }
        )

    def work(self) -> None:
        number = 0
        while not self.stopping.is_set():
            if self._unanswered < _UNANSWERED_MAX:
                for _ in range(self._stream.burst):
                    self._send(number)
                    number += 1
            self._producer.poll(0)
            time.sleep(_PAUSE_S)
        left = self._producer.flush(_END_S_MAX)
        if left:
            self.journal.complain(f"{self.name}: {left} records were never answered")
        del self._producer  # It has no other way to be closed.

    def _send(self, number: int) -> None:
        stream = self._stream
        partition = number // stream.burst % stream.partitions
        mark = Mark(self.name, number)
        place = stream.topic, partition

        def answered(error: KafkaError | None, message: Message) -> None:
            self._unanswered -= 1
            if error is not None:
                self.journal.complain(f"{mark} for {place}: {error}")
                return
            offset = message.offset()
            self.journal.acknowledge(place, -1 if offset is None else offset, mark)

        self._unanswered += 1
        self._producer.produce(
            stream.topic, value=value_of(mark), partition=partition, on_delivery=answered
        )

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            self.journal.complain(f"{self.name}: {error}")


class ConsumerWorker(Worker):
    """Reads along from the start and notes what it sees; offsets must follow one another."""

    def __init__(self, name: str, journal: Journal, address: str, places: list[Place]) -> None:
        super().__init__(name, journal)
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 20,
                **_SOON,
            }
        )
        self._next = dict.fromkeys(places, 0)
        self._begun = threading.Event()

    def wait_until_begun(self) -> None:
        """Wait for the first record: librdkafka takes its time to find a leader."""
        if not self._begun.wait(_END_S_MAX):
            self.journal.complain(f"{self.name} sees nothing")

    def work(self) -> None:
        start = [TopicPartition(*place, OFFSET_BEGINNING) for place in self._next]
        self._consumer.assign(start)
        while not self.stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.05):
                self._take(message)
        self._consumer.close()

    def _take(self, message: Message) -> None:
        problem = message.error()
        if problem is not None:
            if not problem.retriable() and problem.code() != KafkaError._ALL_BROKERS_DOWN:
                self.journal.complain(f"{self.name}: {problem}")
            return
        place = str(message.topic()), int(message.partition() or 0)
        offset = int(message.offset() or 0)
        if offset != self._next[place]:
            self.journal.complain(f"{self.name}: {offset} of {place} after {self._next[place]} - 1")
        self._next[place] = offset + 1
        self.journal.see(place, offset, mark_of(message.value()))
        self._begun.set()
