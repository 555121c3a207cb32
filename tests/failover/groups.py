"""Members of a group that note what they were given, and somebody who watches its offsets."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.failover.libraries import QUIET

PARTITIONS: Final = 4


def write_numbers(bootstrap: str, topic: str, numbers: range) -> None:
    """Each number to the partition of its remainder, all acknowledged when this returns."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True} | QUIET)
    problems: list[str] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            problems.append(str(error))

    for number in numbers:
        producer.produce(topic, str(number), partition=number % PARTITIONS, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not problems, problems[:3]


class Member(threading.Thread):
    """Takes a record, notes it, commits it, takes the next."""

    def __init__(self, bootstrap: str, group: str, topic: str, settings: Mapping[str, Any]) -> None:
        super().__init__(daemon=True)
        self.taken: list[tuple[int, int]] = []
        """Partition and number, in order."""
        self.commits = 0
        self.acknowledged: dict[int, int] = {}
        """What it was told to be committed, by partition."""
        self.problems: list[str] = []
        self.stopping = threading.Event()
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
            | QUIET
        )

    def run(self) -> None:
        """Until told to stop; then it leaves the group."""
        try:
            self._consumer.subscribe([self._topic])
            while not self.stopping.is_set():
                self._take_one()
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.problems.append(f"{type(error).__name__}: {error}")
        finally:
            self._consumer.close()

    def _take_one(self) -> None:
        message = self._consumer.poll(0.1)
        if message is None:
            return
        error = message.error()
        if error is not None:
            if not error.retriable() and error.code() not in _PASSING:
                self.problems.append(f"read: {error}")
            return
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        self.taken.append((partition, int(value)))
        end = (message.offset() or 0) + 1
        while not self._commits(TopicPartition(self._topic, partition, end)):
            time.sleep(0.05)
        self.acknowledged[partition] = end
        self.commits += 1

    def _commits(self, place: TopicPartition) -> bool:
        try:
            self._consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException as failure:
            error = failure.args[0]
            if not error.retriable() and error.code() not in _PASSING:
                raise
            return False
        return True


_PASSING: Final = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""What passes while a group has no coordinator; not all of it is marked as such by the library."""


class OffsetsWatch(threading.Thread):
    """Asks again and again what a group has committed: that may never go back, not even behind
    what only `members` were told in between."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, members: Sequence[Member] = ()
    ) -> None:
        super().__init__(daemon=True)
        self.latest = dict.fromkeys(range(PARTITIONS), -1)
        self.asked = 0
        self.problems: list[str] = []
        self.stopping = threading.Event()
        self._topic = topic
        self._members = members
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group} | QUIET)

    def run(self) -> None:
        """Until told to stop."""
        while not self.stopping.is_set():
            self.ask()
            time.sleep(0.05)

    def ask(self) -> bool:
        """Once; whether it was answered."""
        places = [TopicPartition(self._topic, number) for number in self.latest]
        floors = self._floors()
        try:
            found = self._consumer.committed(places, timeout=10)
        except KafkaException:
            return False  # There is no coordinator just now.
        for place in found:
            if place.error is not None:
                return False
            before, now = floors[place.partition], max(place.offset, -1)
            if now < before:
                self.problems.append(f"partition {place.partition}: {now} after {before}")
            self.latest[place.partition] = now
        self.asked += 1
        return True

    def _floors(self) -> dict[int, int]:
        """What was found or acknowledged so far."""
        return {
            number: max([latest, *(each.acknowledged.get(number, -1) for each in self._members)])
            for number, latest in self.latest.items()
        }
