"""kafka-python behind the common port."""

import re
import time
from collections.abc import Sequence
from typing import Any, Final

import kafka.codec  # type: ignore[import-untyped]
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec  # type: ignore[import-untyped]
from kafka.errors import BrokerResponseError, KafkaError  # type: ignore[import-untyped]
from tests.compat.port import (
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

_ERROR_NUMBER: Final = re.compile(r"\[Error (\d+)\]")
_INSTALLED: Final = {
    "none": True,
    "gzip": kafka.codec.has_gzip(),
    "snappy": kafka.codec.has_snappy(),
    "lz4": kafka.codec.has_lz4(),
    "zstd": kafka.codec.has_zstd(),
}


class KafkaPythonClient(Client):
    """The pure Python library."""

    name = "kafka-python"
    codecs = tuple(codec for codec, there in _INSTALLED.items() if there)
    # It shows no configs, and no error, for a topic that is not there.
    can = frozenset(Can) - {Can.NULL_HEADER_VALUES, Can.CONFIG_ERRORS}

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._producers: dict[Sending, Any] = {}
        self._lazy_admin: Any = None

    @property
    def _admin(self) -> Any:
        if self._lazy_admin is None:
            self._lazy_admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        return self._lazy_admin

    def produce(
        self, topic: str, messages: Sequence[Message], sending: Sending | None = None
    ) -> list[Delivery]:
        producer = self._producer(sending or Sending())
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
        except KafkaError as error:
            raise ClientError(_name(error), str(error)) from error
        return [_delivery(future) for future in futures]

    def _producer(self, sending: Sending) -> Any:
        if sending not in self._producers:
            self._producers[sending] = KafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if sending.codec == "none" else sending.codec,
                acks=sending.acks,
                enable_idempotence=sending.idempotent,
                max_request_size=PRODUCE_BYTES_MAX,
                batch_size=100_000,
                linger_ms=20,
                delivery_timeout_ms=int(WAIT_S * 1000),
                request_timeout_ms=int(WAIT_S * 1000) - 1000,
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
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=fetch_wait_ms,
        )
        where = TopicPartition(topic, partition)
        try:
            consumer.assign([where])
            _seek(consumer, where, start)
            deadline = time.monotonic() + wait_s
            got: list[Message] = []
            while len(got) < count and time.monotonic() < deadline:
                batch = consumer.poll(timeout_ms=200, max_records=count - len(got))
                got += [_message(record) for record in batch.get(where, [])]
            return got
        finally:
            consumer.close()

    def create_topic(
        self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        options = {
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": configs or {},
        }
        self._do("create_topics", {topic: options})

    def delete_topic(self, topic: str) -> None:
        self._do("delete_topics", [topic])

    def topics(self) -> set[str]:
        return set(self._do("list_topics"))

    def partitions(self, topic: str) -> int:
        (found,) = self._do("describe_topics", [topic])
        if found["error_code"]:
            raise ClientError(error_name(found["error_code"]))
        return len(found["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._do("create_partitions", {topic: total})

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self._do("describe_configs", [resource], config_filter="all")
        return {key: data["value"] for key, data in found["topic"][topic].items()}

    def alter_config(self, topic: str, key: str, value: str, change: Change = Change.SET) -> None:
        change_to = (AlterConfigOp[change.name], value)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: change_to})
        verdict = self._do("alter_configs", [resource])["topic"][topic]
        refused = _ERROR_NUMBER.match(verdict)
        if refused:
            raise ClientError(error_name(int(refused[1])), verdict)

    def offset(self, topic: str, start: Start, partition: int = 0) -> int | None:
        spec = start.ms if isinstance(start, Time) else OffsetSpec[Spec(start).name]
        where = TopicPartition(topic, partition)
        found: int = self._do("list_partition_offsets", {where: spec})[where].offset
        return None if found < 0 else found

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        result = self._do("delete_records", {where: before})[where]
        low: int = result["low_watermark"]
        return low

    def brokers(self) -> set[str]:
        return {f"{row['host']}:{row['port']}" for row in self._do("describe_cluster")["brokers"]}

    def log_dir_bytes(self, topic: str, partition: int = 0) -> int:
        (broker,) = self._do("describe_log_dirs", {topic: [partition]})
        (size,) = (
            row["partition_size"]
            for log_dir in broker["log_dirs"]
            for found in log_dir["topics"]
            for row in found["partitions"]
        )
        return int(size)

    def producers(self, topic: str, partition: int = 0) -> list[int]:
        where = TopicPartition(topic, partition)
        state = self._do("describe_producers", [where])[where]
        return [producer.last_sequence for producer in state.active_producers]

    def config_resources(self) -> dict[str, set[str]]:
        found = self._do("list_config_resources", ["TOPIC", "BROKER"])
        return {kind: set(names) for kind, names in found.items()}

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close(timeout=0)
        if self._lazy_admin is not None:
            self._lazy_admin.close()

    def _do(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self._admin, method)(*arguments, **options)
        except KafkaError as error:
            raise ClientError(_name(error), str(error)) from error


def _seek(consumer: Any, where: TopicPartition, start: Start) -> None:
    if isinstance(start, int):
        consumer.seek(where, start)
    elif isinstance(start, Time):
        consumer.seek(where, consumer.offsets_for_times({where: start.ms})[where].offset)
    elif start is Spec.EARLIEST:
        consumer.seek_to_beginning(where)
    else:
        consumer.seek_to_end(where)


def _delivery(future: Any) -> Delivery:
    try:
        sent = future.get(timeout=WAIT_S)
    except KafkaError as error:
        return Delivery(error=_name(error))
    return Delivery(sent.partition, sent.offset)


def _name(error: KafkaError) -> str:
    if isinstance(error, BrokerResponseError):
        return error_name(error.errno)
    return type(error).__name__


def _message(record: Any) -> Message:
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )
