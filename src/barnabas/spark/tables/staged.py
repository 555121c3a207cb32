"""Rows into Parquet files by Spark, and what the files' footers say of them."""

import contextlib
import datetime
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType, TimestampType

from barnabas.spark.tables import durable
from barnabas.spark.tables.snapshot import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_FULL: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "Read-only file system",
    "Input/output error",
)
_PATTERN_LETTERS: Final = re.compile(r"[{}\[\]*?\\]")
_COLUMNS_WITH_STATS_MAX: Final = 32
_TEXT_CHARS_MAX: Final = 64


def write(frame: "DataFrame", folder: str, staged: str, partition_by: Sequence[str] = ()) -> None:
    """Have Spark write the rows; the table's folder is for the sentence if the disk is full."""
    with _microseconds(frame.sparkSession), _full_disks(frame.sparkSession, folder):
        # Folders of partitions name timestamps in UTC, whatever the session's zone is.
        writer = frame.write.option("timeZone", "UTC")
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        writer.parquet(uri(staged))


def found(staged: str, schema: StructType, partition_by: Sequence[str] = ()) -> list[DataFile]:
    """The files that have rows; their paths are within the staged folder."""
    files = []
    for place, folders, names in os.walk(staged):
        # Spark's own folders for what tasks did not finish.
        folders[:] = sorted(name for name in folders if "=" in name)
        for name in sorted(names):
            if name.endswith(".parquet") and not name.startswith((".", "_")):
                path = os.path.relpath(os.path.join(place, name), staged)
                files.append(_described(staged, path, schema, partition_by))
    return [file for file in files if file.rows]


def uri(path: str) -> str:
    """A path as Spark takes it where its default file system is another one."""
    return f"file://{path}"


def uri_to_read(path: str) -> str:
    """The same for reading: there some letters stand for others unless they are escaped.

    (Spark can be told to take paths as they are, but then reads each as often as there are paths.)
    """
    return uri(_PATTERN_LETTERS.sub(r"\\\g<0>", path))


@contextlib.contextmanager
def _full_disks(spark: "SparkSession", folder: str) -> Iterator[None]:
    """Say in one sentence what Spark says in a page when the disk is full."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as problem:
        text = str(problem)
        reason = next((reason for reason in _FULL if reason in text), None)
        if reason is None:
            raise
        _let_files_go(spark)
        raise durable.disk_error(folder, reason) from problem


def _let_files_go(spark: "SparkSession") -> None:
    """Of files that it could not write, Spark deletes the names but does not close them.

    They go on to fill the disk until Java collects its garbage, so it does that now.
    """
    java: Any = spark.sparkContext._jvm
    java.System.gc()


@contextlib.contextmanager
def _microseconds(spark: "SparkSession") -> Iterator[None]:
    """Other programs do not read Spark's 96-bit timestamps, or not as instants."""
    before = spark.conf.get(_TIMESTAMPS, None)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_TIMESTAMPS)
        else:
            spark.conf.set(_TIMESTAMPS, before)


def _described(staged: str, path: str, schema: StructType, partition_by: Sequence[str]) -> DataFile:
    import pyarrow.parquet as pq

    full = os.path.join(staged, path)
    stat = os.stat(full)
    metadata = pq.read_metadata(full)
    return DataFile(
        path,
        stat.st_size,
        stat.st_mtime_ns // 1_000_000,
        metadata.num_rows,
        _partition(path, schema, partition_by),
        stats=_stats(metadata),
    )


def _partition(path: str, schema: StructType, partition_by: Sequence[str]) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    folders = path.split("/")[:-1]
    for name, folder in zip(partition_by, folders, strict=True):
        text = unquote(folder.partition("=")[2])
        if text == _NO_VALUE:
            values[name] = None
        elif isinstance(schema[name].dataType, TimestampType):
            # With the zone: other readers take it for their own where it is left out.
            values[name] = text.replace(" ", "T", 1) + "Z"
        else:
            values[name] = text
    return values


def _stats(metadata: Any) -> dict[str, object]:
    """Delta's statistics, of columns whose least and greatest values are simple to write."""
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    nulls: dict[str, object] = {}
    for index in range(min(metadata.num_columns, _COLUMNS_WITH_STATS_MAX)):
        name = metadata.schema.column(index).path
        if metadata.schema.column(index).max_repetition_level or _is_nested(metadata, index):
            continue
        groups = [
            metadata.row_group(group).column(index).statistics
            for group in range(metadata.num_row_groups)
        ]
        if not groups or any(one is None or not one.has_null_count for one in groups):
            continue
        nulls[name] = sum(one.null_count for one in groups)
        bounds = _bounds([one for one in groups if one.num_values])
        if bounds is not None:
            least[name], greatest[name] = bounds
    return {"minValues": least, "maxValues": greatest, "nullCount": nulls} if nulls else {}


def _is_nested(metadata: Any, index: int) -> bool:
    """Of a column within another one, which is named by a path with dots."""
    column = metadata.schema.column(index)
    return bool(column.path != column.name)


def _bounds(groups: Sequence[Any]) -> tuple[object, object] | None:
    if not groups or not all(one.has_min_max for one in groups):
        return None
    try:
        ends = _simple(min(one.min for one in groups)), _simple(max(one.max for one in groups))
    except (TypeError, ValueError, NotImplementedError, OverflowError):
        # Of types that Arrow has no Python value for, and days that Python's calendar does not
        # have: Spark's goes on after the year 9999, where seconds taken for milliseconds end up.
        return None
    return None if None in ends else ends


def _simple(value: object) -> object:
    """A value as JSON has it; None where that would not be exact."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _TEXT_CHARS_MAX else None
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    return None
