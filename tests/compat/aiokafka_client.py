"""aiokafka behind the common port; every call runs to its end on a loop of the adapter's own."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete  # type: ignore[import-untyped]
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]
from aiokafka.errors import BrokerResponseError, KafkaError  # type: ignore[import-untyped]
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

R = TypeVar("R")


class AiokafkaClient(Client):
    """The asyncio library; it speaks old, non-flexible versions."""

    name = "aiokafka"
    codecs = CODECS
    can = frozenset(Can) - {
        Can.INVALID_RECORD_ERROR,
        Can.INCREMENTAL_CONFIGS,
        Can.MAX_TIMESTAMP,
        Can.DESCRIBE_LOG_DIRS,
        Can.DESCRIBE_PRODUCERS,
        Can.LIST_CONFIG_RESOURCES,
    }

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._runner = asyncio.Runner()
        self._producers: dict[Sending, AIOKafkaProducer] = {}

    def produce(
        self, topic: str, messages: Sequence[Message], sending: Sending | None = None
    ) -> list[Delivery]:
        return self._run(self._produce(topic, messages, sending or Sending()))

    async def _produce(
        self, topic: str, messages: Sequence[Message], sending: Sending
    ) -> list[Delivery]:
        producer = await self._producer(sending)
        futures = [
            await producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=message.partition,
                timestamp_ms=message.timestamp,
            )
            for message in messages
        ]
        return [await _delivery(future) for future in futures]

    async def _producer(self, sending: Sending) -> AIOKafkaProducer:
        if sending not in self._producers:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if sending.codec == "none" else sending.codec,
                acks="all" if sending.acks == -1 else sending.acks,
                enable_idempotence=sending.idempotent,
                max_request_size=PRODUCE_BYTES_MAX,
                max_batch_size=100_000,
                linger_ms=20,
                request_timeout_ms=int(WAIT_S * 1000),
            )
            await producer.start()
            self._producers[sending] = producer
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
        async def read() -> list[Message]:
            async with self._consumer(fetch_wait_ms) as consumer:
                consumer.assign([where])
                await _seek(consumer, where, start)
                return await _read(consumer, where, count, wait_s)

        where = TopicPartition(topic, partition)
        return self._run(read())

    def _consumer(self, fetch_wait_ms: int = FETCH_WAIT_MS) -> Any:
        return AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=fetch_wait_ms,
        )

    def create_topic(
        self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=configs or {})
        self._administer("create_topics", [new])

    def delete_topic(self, topic: str) -> None:
        self._administer("delete_topics", [topic])

    def topics(self) -> set[str]:
        return set(self._administer("list_topics"))

    def partitions(self, topic: str) -> int:
        (found,) = self._administer("describe_topics", [topic])
        _check(found["error_code"])
        return len(found["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._administer("create_partitions", {topic: NewPartitions(total)})

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (response,) = self._administer("describe_configs", [resource])
        ((code, message, _, _, entries),) = response.resources
        _check(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def alter_config(self, topic: str, key: str, value: str, change: Change = Change.SET) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        (response,) = self._administer("alter_configs", [resource])
        ((code, message, *_),) = response.resources
        _check(code, message)

    def offset(self, topic: str, start: Start, partition: int = 0) -> int | None:
        return self._run(self._offset(TopicPartition(topic, partition), start))

    async def _offset(self, where: TopicPartition, start: Start) -> int | None:
        async with self._consumer() as consumer:
            if isinstance(start, Time):
                found = (await consumer.offsets_for_times({where: start.ms}))[where]
                return None if found is None else int(found.offset)
            ask = consumer.beginning_offsets if start is Spec.EARLIEST else consumer.end_offsets
            return int((await ask([where]))[where])

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        low = self._administer("delete_records", {where: RecordsToDelete(before)})[where]
        return int(low)

    def brokers(self) -> set[str]:
        rows = self._administer("describe_cluster")["brokers"]
        return {f"{row['host']}:{row['port']}" for row in rows}

    def close(self) -> None:
        for producer in self._producers.values():
            self._run(producer.stop())
        self._runner.close()

    def _administer(self, method: str, *arguments: Any) -> Any:
        return self._run(self._ask_admin(method, *arguments))

    async def _ask_admin(self, method: str, *arguments: Any) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            answer = await getattr(admin, method)(*arguments)
        finally:
            await admin.close()
        # The answers to creating and to deleting call the same list by two names.
        rows: Any = getattr(answer, "topic_errors", None)
        for row in rows or getattr(answer, "topic_error_codes", ()):
            _check(row[1], str(row[2:]))
        return answer

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        try:
            return self._runner.run(work)
        except KafkaError as error:
            raise ClientError(_name(error), str(error)) from error


async def _read(consumer: Any, where: TopicPartition, count: int, wait_s: float) -> list[Message]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    got: list[Message] = []
    while len(got) < count and loop.time() < deadline:
        batch = await consumer.getmany(where, timeout_ms=200, max_records=count - len(got))
        got += [_message(record) for record in batch.get(where, [])]
    return got


async def _seek(consumer: Any, where: TopicPartition, start: Start) -> None:
    if isinstance(start, int):
        consumer.seek(where, start)
    elif isinstance(start, Time):
        found = await consumer.offsets_for_times({where: start.ms})
        consumer.seek(where, found[where].offset)
    elif start is Spec.EARLIEST:
        await consumer.seek_to_beginning(where)
    else:
        await consumer.seek_to_end(where)


async def _delivery(future: Any) -> Delivery:
    try:
        sent = await asyncio.wait_for(future, WAIT_S)
    except KafkaError as error:
        return Delivery(error=_name(error))
    # With acks=0 nobody says where the message went.
    return Delivery() if sent is None else Delivery(sent.partition, sent.offset)


def _name(error: KafkaError) -> str:
    if isinstance(error, BrokerResponseError):
        return error_name(error.errno)
    return type(error).__name__


def _check(code: int, detail: str | None = None) -> None:
    if code:
        raise ClientError(error_name(code), detail or "")


def _message(record: Any) -> Message:
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )
