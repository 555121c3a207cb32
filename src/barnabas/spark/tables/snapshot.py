"""What a table is at one version of its log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.spark.errors import SparkJobError

OWNER: Final = "barnabas.owner"
"""The setting that says whose table it is."""
ROWS_UNKNOWN: Final = -1


class TableError(SparkJobError):
    """A folder is not the table it should be, or a table can not take what it is given."""


class TableConflictError(TableError):
    """Another writer committed in between, and what it changed is in the way."""

    restart_helps = True


class TableBusyError(TableError):
    """Another writer has the table."""

    restart_helps = True


class TableDiskError(TableError):
    """The disk is full, or does not do what it is told; once it does, the batch goes in."""

    restart_helps = True


class Batch(NamedTuple):
    """Which of an application's batches a commit is; it goes in once."""

    application: str
    number: int
    fingerprint: str = ""
    """Of what it was made from, to know it again; empty where nobody asks."""


class BatchIsIn(Exception):  # noqa: N818 - it is an answer: the work is done already
    """This batch, or a later one of its application, is committed."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that belongs to a table."""

    path: str
    """Relative to the table's folder, with `/`."""
    size: int
    modified_ms: int
    rows: int
    """ROWS_UNKNOWN where its writer, another program, did not say."""
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Values of the partition columns, as Delta writes them."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Whatever its writer wants to know again (Delta's `tags`)."""
    stats: Mapping[str, object] = field(default_factory=dict)
    """Delta's minValues, maxValues and nullCount, where they are known."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is said once, when a table is made."""

    schema_json: str
    """As Spark's StructType.json() has it, which is Delta's, too."""
    partition_columns: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Delta's `configuration`; ours begin with `barnabas.`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that counts at a version."""

    version: int
    table_id: str
    shape: Shape
    files: Mapping[str, DataFile]
    """By path."""
    transactions: Mapping[str, int]
    """For each application the number of the newest of its batches that is in (Delta's `txn`)."""
    removed: Mapping[str, int] = field(default_factory=dict)
    """Files that counted once, and when each was removed, in milliseconds (Delta's tombstones)."""

    def has(self, batch: Batch) -> bool:
        """Whether this batch is in."""
        return self.transactions.get(batch.application, -1) >= batch.number

    @property
    def rows(self) -> int | None:
        """How many rows the table has; None where a file does not say."""
        counts = [file.rows for file in self.files.values()]
        return None if ROWS_UNKNOWN in counts else sum(counts)
