"""The client libraries, each as a writer and a reader of numbers; acks=all, idempotent."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka
import kafka  # type: ignore[import-untyped]
from confluent_kafka import KafkaError
from tests.failover.traffic import PARTITIONS, Client

Work = Callable[[Client], None]

QUIET: dict[str, str | int | float | bool] = {"log_level": 0, "reconnect.backoff.max.ms": 500}
"""Broken connections are what these tests are about: nobody needs to be told."""


def confluent_writer(bootstrap: str) -> Work:
    def write(client: Client) -> None:
        notes = client.notes
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2} | QUIET
        )

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                notes.problems.append(f"confluent-kafka: {error}")
            else:
                notes.acknowledge(int(message.value()), message.partition(), message.offset())

        while (number := client.next_number()) is not None:
            producer.produce(
                notes.topic, str(number), partition=number % PARTITIONS, on_delivery=delivered
            )
            producer.poll(0)
        left = producer.flush(60)
        if left:
            notes.problems.append(f"confluent-kafka: {left} records are not delivered")

    return write


def confluent_reader(bootstrap: str) -> Work:
    def read(client: Client) -> None:
        notes = client.notes
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
            | QUIET
        )
        consumer.assign(
            [confluent_kafka.TopicPartition(notes.topic, n, 0) for n in range(PARTITIONS)]
        )
        while not client.stopping.is_set():
            for message in consumer.consume(500, timeout=0.1):
                error, record = message.error(), cast(Any, message)
                if error is None:
                    notes.see(record.partition(), record.offset(), int(record.value()))
                elif not error.retriable() and error.code() != KafkaError._TRANSPORT:
                    notes.problems.append(f"confluent-kafka: {error}")
        consumer.close()

    return read


def aiokafka_writer(bootstrap: str) -> Work:
    async def write(client: Client) -> None:
        notes = client.notes
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=2,
            metadata_max_age_ms=2000, request_timeout_ms=120_000,
        )  # fmt: skip
        await producer.start()
        under_way: set[asyncio.Future[Any]] = set()

        def delivered(number: int, sent: asyncio.Future[Any]) -> None:
            under_way.discard(sent)
            if sent.exception() is not None:
                notes.problems.append(f"aiokafka: {sent.exception()!r}")
            else:
                notes.acknowledge(number, sent.result().partition, sent.result().offset)

        try:
            while (number := await asyncio.to_thread(client.next_number)) is not None:
                sent = await producer.send(
                    notes.topic, str(number).encode(), partition=number % PARTITIONS
                )
                under_way.add(sent)
                sent.add_done_callback(lambda sent, number=number: delivered(number, sent))
            if under_way:
                await asyncio.wait(under_way, timeout=60)
        finally:
            await producer.stop()

    return lambda client: asyncio.run(write(client))


def aiokafka_reader(bootstrap: str) -> Work:
    async def read(client: Client) -> None:
        notes = client.notes
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, metadata_max_age_ms=2000
        )
        await consumer.start()
        try:
            places = [aiokafka.TopicPartition(notes.topic, n) for n in range(PARTITIONS)]
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            while not client.stopping.is_set():
                for place, records in (await consumer.getmany(timeout_ms=100)).items():
                    for record in records:
                        notes.see(place.partition, record.offset, int(record.value))
        finally:
            await consumer.stop()

    return lambda client: asyncio.run(read(client))


def kafka_python_writer(bootstrap: str) -> Work:
    def write(client: Client) -> None:
        notes = client.notes
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","), acks="all", enable_idempotence=True,
            linger_ms=2, metadata_max_age_ms=2000, delivery_timeout_ms=120_000,
        )  # fmt: skip

        def delivered(number: int, made: Any) -> None:
            notes.acknowledge(number, made.partition, made.offset)

        try:
            while (number := client.next_number()) is not None:
                sent = producer.send(
                    notes.topic, str(number).encode(), partition=number % PARTITIONS
                )
                sent.add_callback(lambda made, number=number: delivered(number, made))
                sent.add_errback(lambda error: notes.problems.append(f"kafka-python: {error!r}"))
            producer.flush(60)
        finally:
            producer.close(10)

    return write


def kafka_python_reader(bootstrap: str) -> Work:
    def read(client: Client) -> None:
        notes = client.notes
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            enable_auto_commit=False,
            metadata_max_age_ms=2000,
        )
        try:
            places = [kafka.TopicPartition(notes.topic, n) for n in range(PARTITIONS)]
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            while not client.stopping.is_set():
                for place, records in consumer.poll(timeout_ms=100).items():
                    for record in records:
                        notes.see(place.partition, record.offset, int(record.value))
        finally:
            consumer.close()

    return read


LIBRARIES: dict[str, tuple[Callable[[str], Work], Callable[[str], Work]]] = {
    "confluent-kafka": (confluent_writer, confluent_reader),
    "aiokafka": (aiokafka_writer, aiokafka_reader),
    "kafka-python": (kafka_python_writer, kafka_python_reader),
}
