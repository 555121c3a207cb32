"""confluent-kafka (librdkafka) behind the common port."""

import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import Message as Received
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.compat.port import (
    CODECS,
    FETCH_WAIT_MS,
    PRODUCE_BYTES_MAX,
    WAIT_S,
    Can,
    Change,
    Client,
    ClientError,
    Delivery,
    Message,
    Sending,
    Spec,
    Start,
    Time,
    error_name,
)

_OPERATIONS: Final = {
    Change.SET: AlterConfigOpType.SET,
    Change.DELETE: AlterConfigOpType.DELETE,
    Change.APPEND: AlterConfigOpType.APPEND,
    Change.SUBTRACT: AlterConfigOpType.SUBTRACT,
}


class ConfluentClient(Client):
    """The library that most Python users have."""

    name = "confluent"
    codecs = CODECS
    can = frozenset(Can) - {
        Can.DESCRIBE_LOG_DIRS,
        Can.DESCRIBE_PRODUCERS,
        Can.LIST_CONFIG_RESOURCES,
    }

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producers: dict[Sending, Producer] = {}

    def produce(
        self, topic: str, messages: Sequence[Message], sending: Sending | None = None
    ) -> list[Delivery]:
        producer = self._producer(sending or Sending())
        deliveries: list[Delivery] = [Delivery(error="no report")] * len(messages)

        def report(at: int) -> Any:
            def reported(error: KafkaError | None, message: Received) -> None:
                if error is not None:
                    deliveries[at] = Delivery(error=error_name(error.code()))
                else:
                    deliveries[at] = Delivery(message.partition() or 0, message.offset() or 0)

            return reported

        for at, message in enumerate(messages):
            # librdkafka takes 0 for "now".
            stamp = 0 if message.timestamp is None else message.timestamp
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=message.partition,
                on_delivery=report(at),
                timestamp=stamp,
            )
        producer.flush(WAIT_S)
        return deliveries

    def _producer(self, sending: Sending) -> Producer:
        if sending not in self._producers:
            self._producers[sending] = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "compression.codec": sending.codec,
                    "acks": sending.acks,
                    "enable.idempotence": sending.idempotent,
                    "message.max.bytes": PRODUCE_BYTES_MAX,
                    "linger.ms": 20,
                    "delivery.timeout.ms": int(WAIT_S * 1000),
                }
            )
        return self._producers[sending]

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: Start = Spec.EARLIEST,
        wait_s: float = WAIT_S,
        fetch_wait_ms: int = FETCH_WAIT_MS,
    ) -> list[Message]:
        consumer = self._consumer(fetch_wait_ms)
        try:
            at = _place(consumer, TopicPartition(topic, partition), start)
            consumer.assign([TopicPartition(topic, partition, at)])
            deadline = time.monotonic() + wait_s
            got: list[Message] = []
            while len(got) < count and time.monotonic() < deadline:
                batch = consumer.consume(count - len(got), timeout=0.1)
                got += [_message(received) for received in batch]
            return got
        finally:
            consumer.close()

    def _consumer(self, fetch_wait_ms: int = FETCH_WAIT_MS) -> Consumer:
        # librdkafka wants a group id even from those who are in no group.
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"nobody-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": fetch_wait_ms,
            }
        )

    def create_topic(
        self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, 1, config=configs or {})
        _result(self._admin.create_topics([new])[topic])

    def delete_topic(self, topic: str) -> None:
        _result(self._admin.delete_topics([topic])[topic])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=WAIT_S).topics)

    def partitions(self, topic: str) -> int:
        found = self._admin.list_topics(topic, timeout=WAIT_S).topics[topic]
        if found.error is not None:
            raise ClientError(error_name(found.error.code()))
        return len(found.partitions)

    def create_partitions(self, topic: str, total: int) -> None:
        _result(self._admin.create_partitions([NewPartitions(topic, total)])[topic])

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = _result(self._admin.describe_configs([resource])[resource])
        return {name: entry.value for name, entry in entries.items()}

    def alter_config(self, topic: str, key: str, value: str, change: Change = Change.SET) -> None:
        given = None if change is Change.DELETE else value
        entry = ConfigEntry(key, given, incremental_operation=_OPERATIONS[change])
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        _result(self._admin.incremental_alter_configs([resource])[resource])

    def offset(self, topic: str, start: Start, partition: int = 0) -> int | None:
        where = TopicPartition(topic, partition)
        if isinstance(start, Time):
            spec = OffsetSpec.for_timestamp(start.ms)
        else:
            spec = getattr(OffsetSpec, Spec(start).value)()
        found: int = _result(self._admin.list_offsets({where: spec})[where]).offset
        return None if found < 0 else found

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The lowest and the highest offset, as librdkafka's consumer asks for them."""
        consumer = self._consumer()
        try:
            return _watermarks(consumer, TopicPartition(topic, partition))
        finally:
            consumer.close()

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = TopicPartition(topic, partition, before)
        low: int = _result(self._admin.delete_records([where])[where]).low_watermark
        return low

    def brokers(self) -> set[str]:
        nodes = _result(self._admin.describe_cluster()).nodes
        return {f"{node.host}:{node.port}" for node in nodes}

    def close(self) -> None:
        for producer in self._producers.values():
            producer.flush(WAIT_S)


def _place(consumer: Consumer, where: TopicPartition, start: Start) -> int:
    """A number, because librdkafka takes half a second to begin at a symbolic offset."""
    if isinstance(start, int):
        return start
    if isinstance(start, Time):
        asked = TopicPartition(where.topic, where.partition, start.ms)
        offset: int = consumer.offsets_for_times([asked], timeout=WAIT_S)[0].offset
        return offset
    low, high = _watermarks(consumer, where)
    return low if start is Spec.EARLIEST else high


def _watermarks(consumer: Consumer, where: TopicPartition) -> tuple[int, int]:
    found = consumer.get_watermark_offsets(where, WAIT_S)
    if found is None:
        raise ClientError("no watermarks")
    return found


def _result(future: "Future[Any]") -> Any:
    try:
        return future.result(WAIT_S)
    except KafkaException as error:
        raise ClientError(error_name(error.args[0].code()), error.args[0].str()) from error


def _message(received: Received) -> Message:
    error = received.error()
    if error is not None:
        raise ClientError(error_name(error.code()), error.str())
    headers: Any = received.headers() or []
    partition, offset = received.partition(), received.offset()
    return Message(
        value=received.value(),
        key=received.key(),
        headers=tuple(headers),
        timestamp=received.timestamp()[1],
        partition=-1 if partition is None else partition,
        offset=-1 if offset is None else offset,
    )
