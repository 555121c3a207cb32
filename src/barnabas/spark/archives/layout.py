"""What an archive's folder holds: names of files, settings, tags, and the columns of its rows."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.spark.errors import SparkJobError
from barnabas.spark.tables.snapshot import DataFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

TOPIC: Final = "barnabas.topic"
TOPIC_ID: Final = "barnabas.topic-id"
CLUSTER_ID: Final = "barnabas.cluster-id"
STARTS: Final = "barnabas.starts"
"""Where each partition was begun, as JSON; one that is not named was begun at 0."""
GAPS: Final = "barnabas.gaps"
"""What was lost and accepted: JSON of [partition, first, end]."""

CHECKPOINTS: Final = "_checkpoint"
STAGING: Final = "_staging"
REPLAYS: Final = "_replays"
LOCK: Final = "_lock"
SPARK_LOG: Final = "_spark.log"

_DIGITS: Final = 20
COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


class ArchiveError(SparkJobError):
    """A folder is not the archive it should be, or an archive can not go on as it is asked to."""


class Range(NamedTuple):
    """Offsets from `first` up to and without `end`."""

    first: int
    end: int


class ArchivedFile(NamedTuple):
    """A file of one partition, and what its tags say of it."""

    path: str
    """Relative to the folder."""
    partition: int
    first: int
    """The first offset it covers, which need not hold a record."""
    end: int
    """The offset after the last that it covers."""
    records: int
    size: int
    """On disk."""
    data_bytes: int
    """In memory, about: keys, values and headers as they are."""
    oldest_ms: int | None
    """The least timestamp; None without records."""
    newest_ms: int | None

    def tags(self) -> dict[str, str]:
        """What the log of the table keeps of it."""
        said = {
            "partition": self.partition,
            "first": self.first,
            "end": self.end,
            "records": self.records,
            "bytes": self.data_bytes,
            "minTimestamp": self.oldest_ms,
            "maxTimestamp": self.newest_ms,
        }
        return {f"barnabas.{name}": str(value) for name, value in said.items() if value is not None}


def archived_file(file: DataFile, folder: str) -> ArchivedFile:
    """The inverse of `ArchivedFile.tags`; ArchiveError for a file that has none of ours."""
    try:
        return ArchivedFile(
            file.path,
            _number(file.tags, "partition"),
            _number(file.tags, "first"),
            _number(file.tags, "end"),
            _number(file.tags, "records"),
            file.size,
            _number(file.tags, "bytes"),
            _number_or_none(file.tags, "minTimestamp"),
            _number_or_none(file.tags, "maxTimestamp"),
        )
    except (KeyError, ValueError) as problem:
        raise ArchiveError(
            f"{os.path.join(folder, file.path)} does not say which offsets it holds ({problem}): "
            f"something else than `barnabas archive` wrote to the table in {folder}, so archive "
            "the topic into another folder."
        ) from problem


def _number(tags: Mapping[str, str], name: str) -> int:
    return int(tags[f"barnabas.{name}"])


def _number_or_none(tags: Mapping[str, str], name: str) -> int | None:
    text = tags.get(f"barnabas.{name}")
    return None if text is None else int(text)


def file_name(topic: str, partition: int, first: int, last: int) -> str:
    """Of a file with records from `first` to `last`, in the folder of its partition."""
    offsets = f"{first:0{_DIGITS}d}-{last:0{_DIGITS}d}"
    return f"{partition}/{topic}-{partition}-{offsets}.parquet"


def record_offsets(path: str) -> tuple[int, int]:
    """The first and the last offset with a record, of a path that `file_name` has made."""
    first, last = path.removesuffix(".parquet").rsplit("-", 2)[-2:]
    return int(first), int(last)


def spark_schema() -> "StructType":
    """The columns, as Spark and the table's log have them; every one nullable."""
    from pyspark.sql import types

    headers = types.ArrayType(
        types.StructType(
            [
                types.StructField("key", types.StringType()),
                types.StructField("value", types.BinaryType()),
            ]
        )
    )
    kinds: dict[str, types.DataType] = {
        "partition": types.IntegerType(),
        "offset": types.LongType(),
        "timestamp": types.TimestampType(),
        "timestampType": types.IntegerType(),
        "key": types.BinaryType(),
        "value": types.BinaryType(),
        "headers": headers,
    }
    return types.StructType([types.StructField(name, kinds[name]) for name in COLUMNS])


def arrow_schema() -> "pa.Schema":
    """The columns as Parquet files hold them."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
            pa.field("timestampType", pa.int32()),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("element", header))),
        ]
    )
