"""What the tests of reading share: topics, options, and what a stranger's consumer sees."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.spark.places import Place, Span
from barnabas.spark.source.options import SourceOptions, parse
from barnabas.spark.source.reading import read_spans

_numbers = itertools.count()


class Row(NamedTuple):
    """A record as both sides tell it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


def quiet(servers: str, **more: Any) -> dict[str, Any]:
    """Settings of a confluent client that does not print when its broker goes."""
    settings = {"bootstrap.servers": servers, "log_level": 0, "error_cb": lambda _: None}
    return settings | {name.replace("_", "."): value for name, value in more.items()}


def new_topic(servers: str, partitions: int = 1, **config: str) -> str:
    """A topic of a name of its own."""
    name = f"read-{next(_numbers)}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient(quiet(servers))
    topic = NewTopic(name, partitions, 1, config=settings)
    admin.create_topics([topic])[name].result()
    return name


def options_for(servers: str, topic: str, **more: object) -> SourceOptions:
    """Options as a query would have them, all columns; `more` are fields of SourceOptions."""
    parsed = parse(
        {"kafka.bootstrap.servers": servers, "subscribe": topic, "includeHeaders": "true"},
        streaming=False,
    )
    return replace(parsed, **more)  # type: ignore[arg-type]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Arrow's columns as rows again."""
    return [row for batch in batches for row in _rows(batch)]


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    batch.validate(full=True)
    micros = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for row, micro in zip(batch.to_pylist(), micros, strict=True):
        headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
        yield Row(
            row["topic"],
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            micro // 1000,
            row["timestampType"],
            headers,
        )


def read(options: SourceOptions, *spans: tuple[str, int, int, int]) -> list[Row]:
    """Each span as topic, partition, start, end."""
    return rows_of(
        read_spans(options, [Span(Place(topic, part), a, b) for topic, part, a, b in spans])
    )


def consumed(
    servers: str, topic: str, partitions: Sequence[int] = (0,), *, committed: bool = True
) -> list[Row]:
    """What librdkafka makes of whole partitions."""
    rows = []
    for partition in partitions:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            quiet(servers, group_id="x", isolation_level=level, enable_partition_eof=True)
        )
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(30)
            assert message is not None, "the consumer heard nothing for half a minute"
            if message.error():
                break
            rows.append(_row(message))
        consumer.close()
    return rows


def _row(message: Message) -> Row:
    kind, timestamp_ms = message.timestamp()
    topic: Any = message.topic()
    partition: Any = message.partition()
    offset: Any = message.offset()
    headers: Any = message.headers() or []
    key: Any = message.key()
    value: Any = message.value()
    return Row(
        topic,
        partition,
        offset,
        key,
        value,
        timestamp_ms,
        int(kind == TIMESTAMP_LOG_APPEND_TIME),
        tuple(headers),
    )


def produce(servers: str, topic: str, values: Iterable[bytes], **settings: Any) -> None:
    """Plainly, into partition 0."""
    producer = Producer(quiet(servers, **settings))
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def end_of(servers: str, topic: str, partition: int = 0) -> int:
    """The high watermark."""
    consumer = Consumer(quiet(servers, group_id="x"))
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    consumer.close()
    return int(high)
