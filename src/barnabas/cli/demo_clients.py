"""The two client libraries of the demonstration, each sending and reading in its own way."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from barnabas.cli.client import admin, admin_api, settings
from barnabas.model.errors import BarnabasError

WAIT_S: Final = 20.0


class Event(NamedTuple):
    """What is sent."""

    key: bytes
    value: bytes


class Stored(NamedTuple):
    """An event and the place it got."""

    partition: int
    offset: int
    event: Event


class Library(Protocol):
    """A Kafka client library."""

    name: str

    def send(self, topic: str, events: Sequence[Event]) -> list[Stored]:
        """Send events with acks=all; where each was acknowledged."""
        ...

    def read(self, topic: str, partitions: int, count: int) -> list[Stored]:
        """Read from the beginning until `count` events are there."""
        ...


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic, with confluent-kafka."""
    client = admin(bootstrap)
    client.create_topics([admin_api().NewTopic(topic, partitions, -1)])[topic].result(WAIT_S)


def other_library(bootstrap: str) -> Library:
    """One that is not built on librdkafka, if any is installed."""
    try:
        import kafka  # type: ignore[import-untyped]
    except ImportError:
        pass
    else:
        return KafkaPython(bootstrap, kafka)
    try:
        import aiokafka  # type: ignore[import-untyped]
    except ImportError as error:
        raise BarnabasError(
            "The demonstration needs a second client library: `pip install kafka-python`."
        ) from error
    return Aiokafka(bootstrap, aiokafka)


def _too_few(library: str, topic: str, got: int, count: int) -> BarnabasError:
    return BarnabasError(
        f"{library} found {got} of {count} events in {topic} within {WAIT_S:.0f} s."
    )


class ConfluentKafka:
    """librdkafka: C underneath."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self) -> Any:
        """A producer that does not lose or repeat anything."""
        from confluent_kafka import Producer

        return Producer(
            settings(self._bootstrap)
            | {
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "message.timeout.ms": int(WAIT_S * 1000),
                "reconnect.backoff.max.ms": 200,
            }
        )

    def send(self, topic: str, events: Sequence[Event]) -> list[Stored]:
        """Send events with acks=all; where each was acknowledged."""
        stored: list[Stored] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise BarnabasError(f"{self.name} could not send: {error}.")
            event = Event(message.key(), message.value())
            stored.append(Stored(message.partition(), message.offset(), event))

        producer = self.producer()
        for event in events:
            producer.produce(topic, event.value, event.key, on_delivery=delivered)
            producer.poll(0)
        producer.flush(WAIT_S)
        return stored

    def read(self, topic: str, partitions: int, count: int) -> list[Stored]:
        """Read from the beginning until `count` events are there."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            settings(self._bootstrap) | {"group.id": "demo", "enable.auto.commit": False}
        )
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
            return self._collect(consumer, topic, count)
        finally:
            consumer.close()

    def _collect(self, consumer: Any, topic: str, count: int) -> list[Stored]:
        stored: list[Stored] = []
        deadline = time.monotonic() + WAIT_S
        while len(stored) < count:
            if time.monotonic() > deadline:
                raise _too_few(self.name, topic, len(stored), count)
            for message in consumer.consume(1000, 0.2):
                if message.error() is not None:
                    raise BarnabasError(f"{self.name} could not read: {message.error()}.")
                event = Event(message.key(), message.value())
                stored.append(Stored(message.partition(), message.offset(), event))
        return stored


class KafkaPython:
    """Plain Python, with a protocol stack of its own."""

    name = "kafka-python"

    def __init__(self, bootstrap: str, module: Any) -> None:
        self._bootstrap = bootstrap
        self._kafka = module

    def send(self, topic: str, events: Sequence[Event]) -> list[Stored]:
        """Send events with acks=all; where each was acknowledged."""
        producer = self._kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap, acks="all", linger_ms=5
        )
        try:
            futures = [producer.send(topic, key=each.key, value=each.value) for each in events]
            places = [future.get(timeout=WAIT_S) for future in futures]
        finally:
            producer.close()
        return [
            Stored(place.partition, place.offset, event)
            for place, event in zip(places, events, strict=True)
        ]

    def read(self, topic: str, partitions: int, count: int) -> list[Stored]:
        """Read from the beginning until `count` events are there."""
        consumer = self._kafka.KafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=None, auto_offset_reset="earliest"
        )
        try:
            places = [self._kafka.TopicPartition(topic, number) for number in range(partitions)]
            consumer.assign(places)
            stored: list[Stored] = []
            deadline = time.monotonic() + WAIT_S
            while len(stored) < count:
                if time.monotonic() > deadline:
                    raise _too_few(self.name, topic, len(stored), count)
                stored += _stored(consumer.poll(timeout_ms=200, max_records=5000))
            return stored
        finally:
            consumer.close()


class Aiokafka:
    """asyncio, with a protocol stack of its own."""

    name = "aiokafka"

    def __init__(self, bootstrap: str, module: Any) -> None:
        self._bootstrap = bootstrap
        self._aiokafka = module

    def send(self, topic: str, events: Sequence[Event]) -> list[Stored]:
        """Send events with acks=all; where each was acknowledged."""
        return asyncio.run(asyncio.wait_for(self._send(topic, events), WAIT_S))

    async def _send(self, topic: str, events: Sequence[Event]) -> list[Stored]:
        async with self._aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, acks="all", linger_ms=5
        ) as producer:
            futures = [
                await producer.send(topic, key=event.key, value=event.value) for event in events
            ]
            places = await asyncio.gather(*futures)
        return [
            Stored(place.partition, place.offset, event)
            for place, event in zip(places, events, strict=True)
        ]

    def read(self, topic: str, partitions: int, count: int) -> list[Stored]:
        """Read from the beginning until `count` events are there."""
        return asyncio.run(asyncio.wait_for(self._read(topic, partitions, count), WAIT_S))

    async def _read(self, topic: str, partitions: int, count: int) -> list[Stored]:
        stored: list[Stored] = []
        async with self._aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            place = self._aiokafka.TopicPartition
            consumer.assign([place(topic, number) for number in range(partitions)])
            while len(stored) < count:
                stored += _stored(await consumer.getmany(timeout_ms=200))
        return stored


def _stored(batches: dict[Any, list[Any]]) -> Iterator[Stored]:
    """What both Python libraries hand over: lists of records by partition."""
    for records in batches.values():
        for record in records:
            yield Stored(record.partition, record.offset, Event(record.key, record.value))
