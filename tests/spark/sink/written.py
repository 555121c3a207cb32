"""Rows into topics without Spark, and records back with a client of somebody else."""

from collections.abc import Iterable
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.transactions import init_producer_id
from barnabas.spark.places import Place
from barnabas.spark.sink.options import SinkOptions, parse
from barnabas.spark.sink.outcomes import WrittenRows
from barnabas.spark.sink.producing import ProducerSession
from barnabas.spark.sink.rows import check_schema
from barnabas.spark.sink.writing import RowWriter
from barnabas.testing import Broker

_numbers = count()
HEADERS = "array<struct<key:string,value:binary>>"


class Read(NamedTuple):
    """One record, as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp: int


def new_topic(broker: Broker, partitions: int = 1, **config: object) -> str:
    """A topic of the test's own; dots of config names are written as underscores."""
    name = f"sink-{next(_numbers)}"
    admin = _admin(broker.bootstrap_servers)
    settings = {key.replace("_", "."): str(value) for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result()
    return name


def delete_topic(broker: Broker, name: str) -> None:
    _admin(broker.bootstrap_servers).delete_topics([name])[name].result()


@cache
def _admin(servers: str) -> AdminClient:
    """One for all tests of a broker: starting a client takes longer than what it does here."""
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


@cache
def _consumer(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reads-back",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # At the end of one topic nobody is to wait for more of it: the next one is assigned.
            "fetch.wait.max.ms": 5,
            "log_level": 0,
        }
    )


def read_all(broker: Broker, topic: str) -> list[Read]:
    """Every committed record, by partition and offset."""
    consumer = _consumer(broker.bootstrap_servers)
    known = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in known])
    found, left = [], set(known)
    while left:
        # A short wait, for it waits until there are as many as were asked for.
        for message in consumer.consume(1000, timeout=0.02):
            error = message.error()
            if error is None:
                found.append(_read(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise AssertionError(str(error))
    consumer.unassign()
    return sorted(found, key=lambda read: (read.partition, read.offset))


def _read(message: Any) -> Read:
    return Read(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.headers(),
        message.timestamp()[1],
    )


def options_of(broker: Broker, **more: str) -> SinkOptions:
    """Options by their names, with dots written as underscores where `kafka_` begins them."""
    given = {
        name.replace("_", ".") if name.startswith("kafka_") else name: value
        for name, value in more.items()
    }
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    return parse(servers | given, streaming=False)


_HEADER = StructType().add("key", StringType()).add("value", BinaryType())
_TYPES: tuple[DataType, ...] = (
    StringType(),
    BinaryType(),
    IntegerType(),
    LongType(),
    TimestampType(),
    ArrayType(_HEADER),
    MapType(StringType(), BinaryType()),
)
_BY_NAME = {each.simpleString(): each for each in _TYPES}


def schema(text: str) -> StructType:
    """`key string, value binary` and so on; Spark's own parser would want a JVM."""
    fields = StructType()
    for column in text.split(", "):
        name, kind = column.split(" ")
        fields.add(name, _BY_NAME[kind])
    return fields


def session_of(options: SinkOptions, cluster: Cluster | None = None) -> ProducerSession:
    """One with a producer id, where the options want it."""
    cluster = cluster or cluster_of(options.connection)
    producer = init_producer_id(cluster, None, 0) if options.idempotent else None
    return ProducerSession(cluster, options, producer)


def write(
    options: SinkOptions,
    columns: str,
    batches: Iterable[pa.RecordBatch],
    *,
    window_bytes: int = 1 << 24,
    session: ProducerSession | None = None,
) -> dict[Place, WrittenRows]:
    """As a task does it."""
    shape = check_schema(schema(columns), options)
    session = session or session_of(options)
    return RowWriter(options, shape, session, window_bytes=window_bytes).write(batches)


def headers_array(rows: list[list[tuple[str, bytes | None]] | None]) -> pa.Array:
    """As Spark's Arrow has it."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    dicts = [
        None if row is None else [{"key": key, "value": value} for key, value in row]
        for row in rows
    ]
    return pa.array(dicts, kind)
