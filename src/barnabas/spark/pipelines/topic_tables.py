"""A topic as a table: the newest record of each key, as it is whenever rows are asked for.

A data source of Python's is planned once for each DataFrame, so that a stream joined with it would
see the topic as it was at the first batch for ever. Here the tasks themselves ask where the topic
ends. The rows of a key are all in one partition and read by one task, which keeps the newest; so
nothing is shuffled, and since Spark takes the table for small it is sent to every task of a join.
(A table too large for that needs `spark.sql.autoBroadcastJoinThreshold: -1` in the settings.)
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.source.batch import BarnabasBatchReader
from barnabas.spark.source.options import SourceOptions, parse, schema_of
from barnabas.spark.source.subscription import Subscription

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_KEPT_BYTES: Final = 64 * 1024 * 1024
"""How much is read before what has become old is dropped."""


def newest_records(session: "SparkSession", options: Mapping[str, str]) -> "DataFrame":
    """The columns of the source, one row for each key that has a value.

    `options` are the source's, `columns` with key, value, topic, partition and offset among them.
    """
    parsed = parse(options, streaming=False)
    shares = session.sparkContext.defaultParallelism

    def read(numbers: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in numbers:
            for share in batch.column(0).to_pylist():
                yield from _share(parsed, share, shares)

    return session.range(0, shares, 1, shares).mapInArrow(read, schema_of(parsed))


def _share(options: SourceOptions, share: int, shares: int) -> Iterator["pa.RecordBatch"]:
    """What one task reads; the partitions are counted anew, for there may be more by now."""
    places = options.subscription.places(cluster_of(options.connection))
    for place in places:
        if (zlib.crc32(place.topic.encode()) + place.partition) % shares == share:
            yield from _newest_of(options, place)


def _newest_of(options: SourceOptions, place: Place) -> Iterator["pa.RecordBatch"]:
    import pyarrow.compute as pc

    kept: list[Any] = []
    size = kept_size = 0
    reader = BarnabasBatchReader(replace(options, subscription=Subscription(assigned=(place,))))
    for spans in reader.partitions():
        for batch in reader.read(spans):
            _check_keys(batch, place)
            kept.append(batch)
            size += batch.nbytes
            # In proportion to what is kept, or a large table would be gone through for each batch.
            if size > _KEPT_BYTES + 2 * kept_size:
                table = _newest(kept)
                kept, size = table.to_batches(), table.nbytes
                kept_size = size
    if kept:
        table = _newest(kept)
        yield from table.filter(pc.is_valid(table["value"])).combine_chunks().to_batches()


def _newest(batches: "list[pa.RecordBatch]") -> "pa.Table":
    """The last row of each key, of batches in the order of their offsets."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.Table.from_batches(batches)
    last = table.select(["key", "offset"]).group_by("key").aggregate([("offset", "max")])
    return table.filter(pc.is_in(table["offset"], value_set=last["offset_max"]))


def _check_keys(batch: "pa.RecordBatch", place: Place) -> None:
    keys = batch.column("key")
    if not keys.null_count:
        return
    first = keys.is_null().to_pylist().index(True)
    raise SparkJobError(
        f"The record {place}@{batch.column('offset')[first]} has no key, and a source with "
        "`table: true` has one row for each key: write records with keys, or leave `table: true` "
        "out."
    )
