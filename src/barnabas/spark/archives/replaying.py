"""An archive into a topic: the same records, in the same partitions and the same order.

Each chunk of the plan is one batch write under a number of its own: with exactly-once a chunk that
is in is skipped when it comes again. One task writes a partition, and reads its files one after
the other, so nothing is sorted or shuffled, and order holds by itself.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.spark.archives.connecting import Connecting
from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.layout import REPLAYS, ArchiveError
from barnabas.spark.archives.opening import topic_id
from barnabas.spark.archives.parquet import row_groups
from barnabas.spark.archives.replay_plan import (
    CHUNK_BYTES,
    Plan,
    Selection,
    Target,
    make_plan,
    plan_id,
    read_plan,
    write_plan,
)
from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.sink.options import AT_LEAST_ONCE, EXACTLY_ONCE, Delivery

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_ROWS_MAX: Final = 16_384
"""Of a batch on its way to the sink."""
_RECORD_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Whether a record is too large is the topic's to say."""
_ROWS: Final = (
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "partition INT, timestamp TIMESTAMP"
)


@dataclass(frozen=True)
class Replaying(Connecting):
    """What shall be replayed, and where to."""

    folder: str
    topic: str
    servers: str
    selection: Selection = field(default_factory=Selection)
    since_ms: int | None = None
    until_ms: int | None = None
    delivery: Delivery = EXACTLY_ONCE
    by_key: bool = False
    """Keys decide the partition, instead of the one a record had."""
    again: bool = False
    """Also when it was done before."""
    chunk_bytes: int = CHUNK_BYTES
    kafka: Mapping[str, str] = field(default_factory=dict)
    """A client's settings, by Kafka's names."""


class Replayed(NamedTuple):
    """How far it is."""

    chunks: int
    of_chunks: int
    records: int
    """About, until it is done: of those that were planned."""
    by_broker: bool
    """Whether the topic gives its own timestamps to what is written to it."""


def replay(
    spark: "SparkSession", asked: Replaying, *, tell: Callable[[Replayed], None] | None = None
) -> Replayed:
    """Write what is left of the replay; ArchiveError where that is nothing, or can not be."""
    plan, by_broker = prepare(asked)
    return carry_out(spark, asked, plan.id, by_broker=by_broker, tell=tell)


def carry_out(
    spark: "SparkSession",
    asked: Replaying,
    identity: str,
    *,
    by_broker: bool = False,
    tell: Callable[[Replayed], None] | None = None,
) -> Replayed:
    """Write what is left of a plan that is there; nothing, when it is finished.

    A driver that is started again calls this: it must not begin a finished replay anew.
    """
    with _only_one(asked.folder, identity):
        plan = read_plan(asked.folder, identity)
        if plan is None:
            raise ArchiveError(
                f"The plan of this replay is gone from {asked.folder}/{REPLAYS}: look at what is "
                "in the topic already, and start the replay again."
            )
        told = Replayed(plan.done, len(plan.chunks), _share(plan), by_broker)
        while not plan.finished:
            _write(spark, asked, plan)
            plan = plan.advanced()
            write_plan(asked.folder, plan)
            told = Replayed(plan.done, len(plan.chunks), _share(plan), by_broker)
            if tell is not None:
                tell(told)
    return told


def prepare(asked: Replaying) -> tuple[Plan, bool]:
    """The plan, made if there is none; and whether the topic has LogAppendTime.

    Everything that can be refused is refused here, before Spark is started.
    """
    if asked.delivery not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise ArchiveError(f"--delivery {asked.delivery}: it is {EXACTLY_ONCE} or {AT_LEAST_ONCE}.")
    contents = Contents(asked.folder)
    cluster = cluster_of(asked.connection())
    count = cluster.partition_counts([asked.topic])[asked.topic]
    target = Target(
        asked.topic,
        topic_id(cluster, asked.topic),
        cluster.cluster_id(),
        asked.delivery,
        asked.by_key,
    )
    identity = plan_id(contents, asked.selection, target)
    # Another plan in the place of one that is being carried out would have its chunks come twice.
    with _only_one(asked.folder, identity):
        plan = _planned(contents, asked, identity, count)
    return plan, cluster.timestamp_types([asked.topic]).get(asked.topic) == "LogAppendTime"


def _planned(contents: Contents, asked: Replaying, identity: str, count: int) -> Plan:
    plan = read_plan(asked.folder, identity)
    if plan is None or (plan.finished and asked.again):
        times_ms = asked.since_ms, asked.until_ms
        plan = make_plan(contents, identity, asked.selection, times_ms, asked.chunk_bytes)
        _check(contents, asked, plan, count)
        write_plan(asked.folder, plan)
    elif plan.finished:
        raise ArchiveError(
            f"This replay of {asked.folder} into {asked.topic} is done, about {plan.records} "
            "records: give --again to write them once more, or choose others."
        )
    return plan


def _check(contents: Contents, asked: Replaying, plan: Plan, count: int) -> None:
    if not plan.chunks:
        raise ArchiveError(
            f"The archive {asked.folder} of {contents.topic} has no records of those that were "
            "asked for: choose others."
        )
    most = max(partition for chunk in plan.chunks for partition in chunk)
    if most >= count and not asked.by_key:
        raise ArchiveError(
            f"The archive {asked.folder} has records of partition {most}, and the topic "
            f"{asked.topic} has {count} partition(s): add partitions to it, or give --by-key to "
            "have the keys decide."
        )


def _share(plan: Plan) -> int:
    return plan.records * plan.done // max(len(plan.chunks), 1)


def _write(spark: "SparkSession", asked: Replaying, plan: Plan) -> None:
    """The next chunk."""
    sink = (
        _rows(spark, asked, plan)
        .write.format("barnabas")
        .mode("append")
        .options(**asked.kafka_options())
        .option("topic", asked.topic)
        .option("delivery", asked.delivery)
        .option("includeTimestamp", "true")
        .option("kafka.max.request.size", str(_RECORD_BYTES_MAX))
    )
    if asked.delivery == EXACTLY_ONCE:
        sink = sink.option("sinkId", plan.sink_id).option("batchId", str(plan.done))
    sink.save()


def _rows(spark: "SparkSession", asked: Replaying, plan: Plan) -> "DataFrame":
    """One task for each partition; only one in all where keys decide, or order might be lost."""
    contents = Contents(asked.folder)
    parts = [
        [
            _Part(contents.path(file), max(first, file.first), min(end, file.end))
            for file in contents.files(partition, first, end)
            if file.records
        ]
        for partition, (first, end) in sorted(plan.chunks[plan.done].items())
    ]
    if asked.by_key:
        parts = [[each for theirs in parts for each in theirs]]
    reading = _Reading(tuple(map(tuple, parts)), plan.since_ms, plan.until_ms)
    rows = spark.range(0, len(parts), 1, len(parts)).mapInArrow(reading.read, _ROWS)
    return rows.drop("partition") if asked.by_key else rows


class _Part(NamedTuple):
    """Offsets of one file."""

    path: str
    first: int
    end: int


@dataclass(frozen=True)
class _Reading:
    """What the tasks of a chunk read; each row that a task gets is a number in `parts`."""

    parts: tuple[Sequence[_Part], ...]
    since_ms: int | None
    until_ms: int | None

    def read(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """In a task."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in self.parts[number]:
                    for rows in row_groups(*part):
                        yield from self._chosen(rows).to_batches(max_chunksize=_ROWS_MAX)

    def _chosen(self, rows: "pa.Table") -> "pa.Table":
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.since_ms is not None:
            rows = rows.filter(pc.greater_equal(_micros(rows), self.since_ms * 1000))
        if self.until_ms is not None:
            rows = rows.filter(pc.less(_micros(rows), self.until_ms * 1000))
        # A record without a timestamp has -1; it gets the time at which it is written.
        none = pa.scalar(None, rows.schema.field("timestamp").type)
        known = pc.if_else(pc.less(_micros(rows), 0), none, rows.column("timestamp"))
        columns = [rows.column(name) for name in ("key", "value", "headers", "partition")]
        names = ["key", "value", "headers", "partition", "timestamp"]
        return pa.table([*columns, known], names=names)


def _micros(rows: "pa.Table") -> "pa.ChunkedArray":
    import pyarrow as pa

    return rows.column("timestamp").cast(pa.int64())


@contextmanager
def _only_one(folder: str, identity: str) -> Iterator[None]:
    os.makedirs(os.path.join(folder, REPLAYS), exist_ok=True)
    path = os.path.join(folder, REPLAYS, f"{identity}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise ArchiveError(
                f"Another process is at this replay of {folder}: let it finish, or stop it first."
            ) from problem
        yield
    finally:
        os.close(descriptor)
