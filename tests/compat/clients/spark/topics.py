"""The topics that both connectors read: every shape of record and of log that Kafka knows."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

DEADLINE_S: Final = 90.0
BORN_MS: Final = 1_700_000_000_000
"""Of the first record of each topic with times of its own; one second apart from there."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BROKER: Final = {"log.cleaner.backoff.ms": 100, "log.flush.offset.checkpoint.interval.ms": 200}
"""What a broker needs for a compaction that does not keep a test waiting."""

Header = tuple[str, str | bytes | None]
HEADERS: Final[tuple[list[Header] | None, ...]] = (
    None,
    [("trace", b"\x00\x01")],
    [("a", b"1"), ("a", b"2"), ("b", None), ("empty", b"")],
    [("", b"nameless"), ("schön", "grün".encode())],
)


@dataclass
class Topics:
    """Makes topics and fills them."""

    bootstrap: str

    def __post_init__(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """A new topic; dots of the configs are written as underscores."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        made = self._admin.create_topics([NewTopic(topic, partitions, config=settings)])
        made[topic].result(DEADLINE_S)

    def extend(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(DEADLINE_S)

    def delete(self, topic: str) -> None:
        """Remove a topic."""
        self._admin.delete_topics([topic])[topic].result(DEADLINE_S)

    def delete_records(self, topic: str, before: int) -> None:
        """Move the beginning of partition 0."""
        place = TopicPartition(topic, 0, before)
        for future in self._admin.delete_records([place]).values():
            future.result(DEADLINE_S)

    def configure(self, topic: str, **config: str) -> None:
        """Change settings of a topic."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(DEADLINE_S)

    def producer(self, **settings: Any) -> Producer:
        """A producer; dots of its settings are written as underscores."""
        named = {key.replace("_", "."): value for key, value in settings.items()}
        return Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, **named})

    # The shapes

    def fill_plain(self, topic: str, partitions: int = 3, records: int = 300) -> None:
        """Keys and values with and without bytes, headers of all kinds, times of their own."""
        self.create(topic, partitions)
        self.add_plain(topic, range(records), partitions)

    def add_plain(self, topic: str, numbers: Iterable[int], partitions: int) -> None:
        """More of the same: partition 0 gets twice as many as each other one."""
        producer = self.producer()
        for number in numbers:
            producer.produce(
                topic,
                key=(None, b"", f"key {number % 17}".encode())[min(number % 5, 2)],
                value=(None, b"", b"\xff\x00" * (number % 50))[min(number % 7, 2)],
                partition=max(0, number % (partitions + 1) - 1),
                timestamp=BORN_MS + number * 1000,
                headers=HEADERS[number % len(HEADERS)],
            )
        _flushed(producer)

    def fill_compressed(self, topic: str, codec: str, records: int = 500) -> None:
        """One topic for one codec."""
        self.create(topic, 2)
        producer = self.producer(compression_type=codec, linger_ms=50)
        for number in range(records):
            producer.produce(
                topic,
                key=f"{number % 9}",
                value=f"record {number} " * 20,
                partition=number % 2,
                timestamp=BORN_MS + number,
                headers=HEADERS[number % len(HEADERS)],
            )
        _flushed(producer)

    def fill_transactional(self, topic: str) -> None:
        """Committed, aborted and plain records by turns; the log ends in an abort marker."""
        self.create(topic, 2)
        writer, plain = self.producer(transactional_id=f"{topic}-writer"), self.producer()
        writer.init_transactions(DEADLINE_S)
        for turn in range(9):
            writer.begin_transaction()
            for number in range(10):
                writer.produce(topic, key=f"{turn}", value=f"{turn}.{number}", partition=turn % 2)
            writer.flush(DEADLINE_S)
            plain.produce(topic, key=f"{turn}", value="plain", partition=turn % 2)
            _flushed(plain)
            if turn % 3 == 2:
                writer.abort_transaction(DEADLINE_S)
            else:
                writer.commit_transaction(DEADLINE_S)

    def open_transaction(self, topic: str) -> Producer:
        """A topic whose last transaction has not ended; whoever holds the producer ends it."""
        self.create(topic, 1)
        plain = self.producer()
        plain.produce(topic, value="before", partition=0)
        _flushed(plain)
        writer = self.producer(transactional_id=f"{topic}-writer", transaction_timeout_ms=900_000)
        writer.init_transactions(DEADLINE_S)
        writer.begin_transaction()
        writer.produce(topic, value="not yet", partition=0)
        writer.flush(DEADLINE_S)
        plain.produce(topic, value="behind it", partition=0)
        _flushed(plain)
        return writer

    def fill_compacted(self, topic: str) -> None:
        """A log with gaps, that stays as it is from then on."""
        self.create(
            topic,
            cleanup_policy="compact",
            min_cleanable_dirty_ratio="0.01",
            internal_segment_bytes="20000",
            delete_retention_ms="100",
        )
        producer = self.producer()
        for number in range(600):
            # Few keys that are written again and again, and some that stay where they are.
            key = f"only {number}" if number % 37 == 0 else f"{number % 20}"
            producer.produce(topic, key=key, value=f"{number} " + "x" * 60)
            if number % 20 == 19:
                _flushed(producer)

        def is_compacted() -> bool:
            # A segment is compacted once it is closed, and what closes it is the next record.
            producer.produce(topic, key="filler", value=os.urandom(5_000))
            _flushed(producer)
            keys = [record.key for record in read_topic(self.bootstrap, topic)]
            return keys.count(b"7") == 1

        _until(is_compacted, f"{topic} is not compacted")
        self.configure(topic, cleanup_policy="delete")

    def fill_stamped(self, topic: str) -> None:
        """Times are the broker's."""
        self.create(topic, 1, message_timestamp_type="LogAppendTime")
        producer = self.producer()
        for number in range(20):
            producer.produce(topic, value=f"{number}", timestamp=BORN_MS + number)
        _flushed(producer)


@dataclass(frozen=True, order=True)
class Stored:
    """One record, as a consumer of librdkafka sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] | None
    timestamp: int


def read_topic(
    bootstrap: str, topic: str, settings: Mapping[str, str] | None = None
) -> list[Stored]:
    """Every record there is, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads without committing",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **(settings or {}),
        }
    )
    try:
        known = consumer.list_topics(topic, DEADLINE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in known])
        found: list[Stored] = []
        ends = 0
        while ends < len(known):
            message = consumer.poll(DEADLINE_S)
            if message is None:
                raise TimeoutError(f"the consumer of {topic} waits in vain")
            error = message.error()
            if error is None:
                found.append(_stored(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ends += 1
            else:
                raise RuntimeError(str(error))
    finally:
        consumer.close()
    return sorted(found, key=lambda each: (each.partition, each.offset))


def _stored(message: Any) -> Stored:
    headers = message.headers()
    return Stored(
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=None if headers is None else tuple(headers),
        timestamp=message.timestamp()[1],
    )


def _flushed(producer: Producer) -> None:
    left = producer.flush(DEADLINE_S)
    if left:
        raise TimeoutError(f"{left} records were not taken")


def _until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.1)
