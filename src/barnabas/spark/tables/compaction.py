"""Many small files into few: the same rows, in a commit that says so.

Each batch leaves files behind, mostly small ones, and readers pay for each file. So after a batch
the files of a partition are put together when they have become too many.
"""

import logging
import math
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from barnabas.spark.tables import checkpoints, columns, staged
from barnabas.spark.tables.files import TableWriter, remove_unused, writing_alone
from barnabas.spark.tables.places import local_folder
from barnabas.spark.tables.snapshot import DataFile, Snapshot, TableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_MAX: Final = 40
"""Of small files in a partition."""
SMALL_BYTES: Final = 16 * 1024 * 1024
TARGET_BYTES: Final = 128 * 1024 * 1024
CLEANED_EVERY_VERSIONS: Final = 100
_LOG: Final = logging.getLogger("barnabas.spark")


def compact(
    spark: "SparkSession", folder: str, *, files_max: int = 1, small_bytes: int = SMALL_BYTES
) -> bool:
    """Put small files together now; True when there was something to do."""
    with writing_alone(local_folder(folder)) as writer:
        before = writer.log.snapshot()
        if before is None:
            raise TableError(f"{writer.folder} is no table, so it can not be compacted.")
        return _compacted(spark, writer, before, files_max, small_bytes) is not before


def tidy(spark: "SparkSession", writer: TableWriter, before: Snapshot, after: Snapshot) -> None:
    """What is to be done from time to time after a commit, which counts even if this fails."""
    try:
        now = _compacted(spark, writer, after, FILES_MAX, SMALL_BYTES)
        if now.version // CLEANED_EVERY_VERSIONS != before.version // CLEANED_EVERY_VERSIONS:
            remove_unused(writer, checkpoints.KEPT_S)
    except (TableError, OSError, Py4JError, PySparkException) as problem:
        _LOG.warning(
            "The batch is in, but small files of the table %s could not be put together or old "
            "ones not be removed; this is tried again after later batches: %s",
            writer.folder,
            problem,
        )


def _compacted(
    spark: "SparkSession",
    writer: TableWriter,
    now: Snapshot,
    files_max: int,
    small_bytes: int,
) -> Snapshot:
    for group in _crowds(now, files_max, small_bytes):
        added = _merged(spark, writer, now, group)
        now = writer.log.commit(
            now,
            add=added,
            remove=[file.path for file in group],
            operation="OPTIMIZE",
            data_change=False,
        )
    return now


def _crowds(snapshot: Snapshot, files_max: int, small_bytes: int) -> list[list[DataFile]]:
    """The small files of each partition that has too many of them."""
    groups: dict[str, list[DataFile]] = defaultdict(list)
    for file in snapshot.files.values():
        if file.size < small_bytes:
            groups[os.path.dirname(file.path)].append(file)
    return [group for group in groups.values() if len(group) > files_max]


def _merged(
    spark: "SparkSession", writer: TableWriter, now: Snapshot, group: Sequence[DataFile]
) -> list[DataFile]:
    """The rows of these files, which are of one partition, in as few as can be."""
    schema = columns.schema_of(now.shape)
    inside = StructType([one for one in schema if one.name not in now.shape.partition_columns])
    paths = (staged.uri_to_read(os.path.join(writer.folder, file.path)) for file in group)
    rows = spark.read.schema(inside).parquet(*paths)
    files = math.ceil(sum(file.size for file in group) / TARGET_BYTES)
    into = writer.stage()
    staged.write(rows.coalesce(files), writer.folder, into)
    partition = os.path.dirname(group[0].path)
    found = {
        file.path: DataFile(
            os.path.join(partition, file.path),
            file.size,
            file.modified_ms,
            file.rows,
            group[0].partition,
            stats=file.stats,
        )
        for file in staged.found(into, inside)
    }
    if sum(file.rows for file in found.values()) != sum(file.rows for file in group):
        raise TableError(
            f"Putting together {len(group)} files of the table {writer.folder} gave another number "
            "of rows, so it was left as it is: check the disk."
        )
    writer.publish(into, {inside_: file.path for inside_, file in found.items()})
    return list(found.values())
