"""Topics to plan over, and readers that are asked what Spark's driver would ask."""

from collections.abc import Iterable
from itertools import count
from typing import Any, Final

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.places import Offsets, Place, Span
from barnabas.spark.source.batch import BarnabasBatchReader
from barnabas.spark.source.options import parse
from barnabas.spark.source.planning import TaskSpans
from barnabas.spark.source.progress import Progress
from barnabas.spark.source.pushdown import PushdownBatchReader
from barnabas.spark.source.stream import BarnabasStreamReader

WAIT_S: Final = 100
_numbers = count()


class World:
    """One broker's topics."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self.cluster: Cluster = cluster_of(
            Connection.from_options({"kafka.bootstrap.servers": servers})
        )
        self._meet_topics()

    def _meet_topics(self) -> None:
        """A producer without memories: librdkafka would not know yet that a topic has changed."""
        # Without a log: at the end it would tell of a broker that has gone.
        config: dict[str, str | int] = {"bootstrap.servers": self.servers, "log_level": 0}
        self._producer = Producer(config)

    def close(self) -> None:
        """Hang up: what readers have asked with, and what progress was committed with."""
        self.cluster.close()
        hasty = Progress(self.cluster.connection, None)._connection
        cluster_of(hasty).close()

    def topic(self, partitions: int = 1, *, name: str | None = None, **config: str) -> str:
        """A new one; config keys with underscores for dots."""
        name = name or f"topic-{next(_numbers)}"
        configs = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, partitions, 1, config=configs)
        for done in self.admin.create_topics([new]).values():
            done.result(WAIT_S)
        return name

    def delete(self, topic: str) -> None:
        for done in self.admin.delete_topics([topic]).values():
            done.result(WAIT_S)
        self._meet_topics()

    def grow(self, topic: str, partitions: int) -> None:
        for done in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            done.result(WAIT_S)
        self._meet_topics()

    def forget(self, place: Place, before: int) -> None:
        """As retention does: the log begins at `before` from now on."""
        cut = TopicPartition(place.topic, place.partition, before)
        for done in self.admin.delete_records([cut]).values():
            done.result(WAIT_S)

    def write(
        self, topic: str, records: int, *, partition: int = 0, size: int = 10, time_ms: int = 0
    ) -> None:
        """So many records, one millisecond apart from `time_ms` on if that is given."""
        for number in range(records):
            # 0 is librdkafka's word for "now".
            at = time_ms + number if time_ms else 0
            self._producer.produce(topic, b"v" * size, partition=partition, timestamp=at)
        assert self._producer.flush(WAIT_S) == 0

    def open_transaction(self, topic: str, records: int) -> Producer:
        """Records of a transaction that has not ended."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": f"txn-{next(_numbers)}"}
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, b"v", partition=0)
        producer.flush(WAIT_S)
        return producer

    def options(self, **options: object) -> dict[str, str]:
        """As Spark hands them over; underscores for dots, `kafka_` in front of Kafka's."""
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        return {"kafka.bootstrap.servers": self.servers} | given

    def stream(self, **options: object) -> BarnabasStreamReader:
        # Not a second each for what a leader that was just elected would not know yet.
        quick = {"fetchOffset_retryIntervalMs": 1} | options
        return BarnabasStreamReader(parse(self.options(**quick), streaming=True))

    def batch(self, **options: object) -> BarnabasBatchReader:
        quick = {"fetchOffset_retryIntervalMs": 1} | options
        return BarnabasBatchReader(parse(self.options(**quick), streaming=False))

    def pushdown(self, **options: object) -> PushdownBatchReader:
        return PushdownBatchReader(parse(self.options(**options), streaming=False))


def latest(reader: BarnabasStreamReader, start: Offsets) -> Any:
    """Fresh, not of a moment ago."""
    reader._heads._ends_at = float("-inf")
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def all_of(reader: BarnabasStreamReader, start: Offsets) -> Any:
    """As Trigger.Once asks."""
    reader._heads._ends_at = float("-inf")
    return reader.latestOffset(start, ReadAllAvailable())


def spans_of(partitions: Iterable[InputPartition]) -> list[Span]:
    """What all tasks together read, pieces of a partition joined."""
    joined: dict[Place, Span] = {}
    for task in partitions:
        assert isinstance(task, TaskSpans)
        for span in task.spans:
            before = joined.get(span.place)
            assert before is None or before.end == span.start
            start = span.start if before is None else before.start
            joined[span.place] = Span(span.place, start, span.end)
    return sorted(joined.values())
