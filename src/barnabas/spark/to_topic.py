"""`to_topic`: brings all rows of a topic's partition into one task, which exactly-once needs.

Where a row goes depends on the row alone, never on its neighbours or on chance: a task that Spark
runs again sends the same rows to the same partitions, or rows would be lost between two runs.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import SparkJobError, UnavailableError
from barnabas.spark.sink.options import Partitioner, SinkOptions, parse
from barnabas.spark.sink.rows import RowShape, check_schema, variable
from barnabas.wire.records.columns import partitions_by_crc32, partitions_by_murmur2

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HASHES: Final = {"murmur2": partitions_by_murmur2, "crc32": partitions_by_crc32}
_NULL_PARTITION: Final = (
    "The column partition is null in a row: fill it, or drop the column before to_topic to have "
    "the key decide."
)


def to_topic(
    df: "DataFrame",
    topic: str | None = None,
    *,
    servers: str | None = None,
    options: Mapping[str, str] | None = None,
    tasks: int | None = None,
) -> "DataFrame":
    """The rows of `df` as the sink wants them: its columns alone, and partition by partition.

    `options` are the ones that the sink will get; `topic` and `servers` are short for two of them.
    Without a topic the column `topic` says where each row goes. Rows with a key go where the sink
    would send them; rows without one are spread by what they hold. Each partition is written by
    one task, and there are as many tasks as the topic has partitions, or `tasks` if those are
    fewer. Write the result as it is: another shuffle would undo it.
    """
    _check_speculation(df)
    given = {key.lower(): value for key, value in (options or {}).items()}
    if servers is not None:
        given["kafka.bootstrap.servers"] = servers
    if topic is not None:
        given["topic"] = topic
    parsed = parse(given, streaming=df.isStreaming)
    shape = check_schema(df.schema, parsed)
    rows = df.select(*(df.schema.names[position] for position in _kept(shape)))
    if tasks is not None and tasks < 1:
        raise SparkJobError(f"tasks={tasks} would write nothing: give 1 or more, or leave it out.")
    if parsed.topic is None:
        return _by_topic_and_partition(rows, parsed, shape, tasks)
    return _by_partition(rows, parsed, shape, parsed.topic, tasks)


def _check_speculation(df: "DataFrame") -> None:
    speculation = df.sparkSession.conf.get("spark.speculation", "false") or "false"
    if speculation.lower() == "true":
        raise SparkJobError(
            "spark.speculation is on, and a task that runs twice can not write exactly once: set "
            "spark.speculation=false."
        )


def _kept(shape: RowShape) -> list[int]:
    wanted = (
        shape.key, shape.value, shape.headers, shape.topic, shape.partition, shape.timestamp,
    )  # fmt: skip
    return [position for position in wanted if position is not None]


def _by_partition(
    rows: "DataFrame", options: SinkOptions, shape: RowShape, topic: str, tasks: int | None
) -> "DataFrame":
    count = cluster_of(options.connection).partition_counts([topic])[topic]
    if count == 1 or tasks == 1:
        return rows.coalesce(1)
    partition = _partition(rows, options, shape, topic, count)
    writers = count if tasks is None else min(tasks, count)
    return rows.withColumn("partition", partition).repartitionById(writers, "partition")


def _by_topic_and_partition(
    rows: "DataFrame", options: SinkOptions, shape: RowShape, tasks: int | None
) -> "DataFrame":
    placed = rows.withColumn("partition", _partition(rows, options, shape, None, None))
    columns = ("topic", "partition")
    return placed.repartition(*columns) if tasks is None else placed.repartition(tasks, *columns)


def _partition(
    rows: "DataFrame", options: SinkOptions, shape: RowShape, topic: str | None, count: int | None
) -> "Column":
    """Where each row goes; keys alone are sent to Python for it, and only where there are any."""
    from pyspark.sql import functions as f

    if shape.partition is not None:
        return f.coalesce(f.col("partition"), f.raise_error(f.lit(_NULL_PARTITION)).cast("int"))
    # 31 bits, so that it can be taken modulo any number of partitions.
    spread = f.xxhash64(*rows.columns).bitwiseAND(f.lit(2**31 - 1)).cast("int")
    if count is not None:
        spread = (spread % f.lit(count)).cast("int")
        if shape.key is None:
            return spread
    columns = ([] if count is not None else [f.col("topic"), spread]) + (
        [f.col("key")] if shape.key is not None else []
    )
    chosen = _chooser(options.connection, options.partitioner, topic, count)(*columns)
    return chosen if count is None else f.coalesce(chosen, spread)


def _chooser(
    connection: Connection, partitioner: Partitioner, topic: str | None, count: int | None
) -> Any:
    """A function of columns: of keys for one topic, else of topics, numbers and keys, if any."""
    from pyspark.sql.pandas.functions import arrow_udf

    def of_keys(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        _check_count(connection, topic or "", count or 0)
        for keys in batches:
            yield hashed(keys, partitioner, count or 0)

    def of_topics(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        counts: dict[str, int] = {}
        for topics, spread, *keys in batches:
            _learn_counts(connection, topics, counts)
            yield _of_each_topic(topics, spread, keys[0] if keys else None, partitioner, counts)

    # Their annotations tell Spark what kind of functions they are; its types do not know of it.
    return arrow_udf(  # type: ignore[call-overload]
        of_keys if count is not None else of_topics, "int"
    )


def hashed(keys: pa.Array, partitioner: Partitioner, count: int) -> pa.Array:
    """The partition of each key; null where the key leaves it open."""
    numbers = _HASHES[partitioner](variable(keys), len(keys), count)
    partitions = pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(numbers)])
    if not keys.null_count and partitioner == "murmur2":
        return partitions
    import pyarrow.compute as pc

    return pc.if_else(pc.greater_equal(partitions, 0), partitions, None)


def _check_count(connection: Connection, topic: str, count: int) -> None:
    """Once for each task: other producers would send keys elsewhere by now."""
    now = cluster_of(connection).partition_counts([topic])[topic]
    if now != count:
        raise UnavailableError(
            f"The topic {topic} had {count} partitions when the query was planned, and has {now}: "
            "start the query again, with a new to_topic, to have keys go where they belong now."
        )


def _learn_counts(connection: Connection, topics: pa.Array, counts: dict[str, int]) -> None:
    names = topics.unique().to_pylist()
    if None in names:
        raise SparkJobError("The column topic is null in a row: fill it before to_topic.")
    new = [name for name in names if name not in counts]
    if new:
        counts.update(cluster_of(connection).partition_counts(new))


def _of_each_topic(
    topics: pa.Array,
    spread: pa.Array,
    keys: pa.Array | None,
    partitioner: Partitioner,
    counts: Mapping[str, int],
) -> pa.Array:
    import numpy as np

    encoded = topics.dictionary_encode()
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    chosen = np.empty(len(topics), dtype=np.int32)
    spreads = spread.to_numpy(zero_copy_only=False)
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(numbers == number)
        chosen[rows] = spreads[rows] % counts[name]
        if keys is not None:
            by_key = hashed(keys.take(pa.array(rows)), partitioner, counts[name])
            known = by_key.is_valid().to_numpy(zero_copy_only=False)
            chosen[rows[known]] = by_key.drop_null().to_numpy(zero_copy_only=False)
    return pa.array(chosen)
