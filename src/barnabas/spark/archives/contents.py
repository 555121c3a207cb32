"""What an archive holds at one moment: which offsets of which partition, and in which files."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from barnabas.spark.archives.layout import (
    CLUSTER_ID,
    GAPS,
    STARTS,
    TOPIC,
    TOPIC_ID,
    ArchivedFile,
    ArchiveError,
    Range,
    archived_file,
    spark_schema,
)
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.snapshot import OWNER, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PATTERN: Final = re.compile(r"[\\{}\[\]*?]")
"""What means something in Hadoop's patterns of paths."""


class Contents:
    """A snapshot of an archive, pinned: what is archived or compacted later does not change it.

    Its files stay for an hour at least after a compaction has replaced them. ArchiveError when
    the folder holds no archive.
    """

    def __init__(self, folder: str, snapshot: Snapshot | None = None) -> None:
        self.folder: Final = os.path.abspath(folder)
        self.snapshot: Final = snapshot or _snapshot(self.folder)
        settings = self.snapshot.shape.settings
        if TOPIC not in settings:
            raise ArchiveError(
                f"{self.folder} holds a table that is no archive of a topic: name a folder that "
                "`barnabas archive` has written."
            )
        self.topic: Final = settings[TOPIC]
        self.topic_id: Final = settings.get(TOPIC_ID)
        """None where the cluster was older than Kafka 2.8."""
        self.cluster_id: Final = settings.get(CLUSTER_ID)
        self.owner: Final = settings.get(OWNER, "")
        self.starts: Final[Mapping[int, int]] = _starts(settings)
        self.gaps: Final[Mapping[int, tuple[Range, ...]]] = _gaps(settings)
        """What was lost before it could be archived, and accepted: no file covers it."""
        self._files: Final = _by_partition(self.snapshot, self.folder)
        self.ranges: Final[Mapping[int, Range]] = self._ranges()
        """For each partition the first offset and the one after the last, covered without a break
        but for `gaps`. Offsets without a record (compacted away, or ends of transactions) count.
        Partitions of which nothing has been archived are left out."""

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(file.records for files in self._files.values() for file in files)

    def end(self, partition: int) -> int:
        """Where archiving of a partition goes on, also of one that nothing is archived of."""
        covered = self.ranges.get(partition)
        return self.starts.get(partition, 0) if covered is None else covered.end

    def files(
        self, partition: int, first: int = 0, end: int | None = None
    ) -> tuple[ArchivedFile, ...]:
        """Those that cover any of the offsets, in their order."""
        return tuple(
            file
            for file in self._files.get(partition, ())
            if file.end > first and (end is None or file.first < end)
        )

    def path(self, file: ArchivedFile) -> str:
        """Where a file lies."""
        return os.path.join(self.folder, *file.path.split("/"))

    def frame(
        self, spark: "SparkSession", ranges: Mapping[int, tuple[int, int]] | None = None
    ) -> "DataFrame":
        """The records of the chosen ranges, each partition's [first, end); all without `ranges`.

        Columns: partition, offset, timestamp, timestampType, key, value, headers. Each offset once;
        in no order. What of a range is not archived is not in it.
        """
        chosen = self.ranges if ranges is None else ranges
        files = [
            (file, first, end)
            for partition, (first, end) in sorted(chosen.items())
            for file in self.files(partition, first, end)
            if file.records
        ]
        if not files:
            return spark.createDataFrame([], spark_schema())
        # Otherwise a folder with [ or * in its name would be taken for a pattern.
        paths = [_PATTERN.sub(r"\\\g<0>", self.path(file)) for file, _, _ in files]
        rows = spark.read.schema(spark_schema()).parquet(*paths)
        if all(first <= file.first and file.end <= end for file, first, end in files):
            return rows
        return rows.where(_any_of(_condition(p, *chosen[p]) for p in sorted(chosen)))

    def _ranges(self) -> dict[int, Range]:
        ranges = {}
        for partition in sorted(self._files.keys() | self.gaps.keys()):
            parts = [Range(file.first, file.end) for file in self._files.get(partition, ())]
            parts = sorted([*parts, *self.gaps.get(partition, ())])
            for before, after in pairwise(parts):
                if before.end != after.first:
                    raise self._broken(partition, before.end, after.first)
            ranges[partition] = Range(parts[0].first, parts[-1].end)
        return ranges

    def _broken(self, partition: int, end: int, first: int) -> ArchiveError:
        what = "are missing" if end < first else "are there twice"
        return ArchiveError(
            f"Offsets {min(end, first)} to {max(end, first) - 1} of {self.topic}-{partition} "
            f"{what} in {self.folder}: something else than `barnabas archive` changed the table, "
            "so archive the topic into another folder."
        )


def _any_of(conditions: "Iterable[Column]") -> "Column":
    return reduce(lambda one, other: one | other, conditions)


def _condition(partition: int, first: int, end: int) -> "Column":
    from pyspark.sql import functions as f

    offset = f.col("offset")
    return (f.col("partition") == partition) & (offset >= first) & (offset < end)


def _snapshot(folder: str) -> Snapshot:
    snapshot = TableLog(folder).snapshot() if os.path.isdir(folder) else None
    if snapshot is None:
        raise ArchiveError(
            f"There is no archive in {folder}: check the path, or make one with "
            f"`barnabas archive TOPIC {folder}`."
        )
    return snapshot


def _starts(settings: Mapping[str, str]) -> dict[int, int]:
    starts: dict[str, int] = json.loads(settings.get(STARTS, "{}"))
    return {int(partition): offset for partition, offset in starts.items()}


def _gaps(settings: Mapping[str, str]) -> dict[int, tuple[Range, ...]]:
    gaps: dict[int, list[Range]] = {}
    for partition, first, end in json.loads(settings.get(GAPS, "[]")):
        gaps.setdefault(partition, []).append(Range(first, end))
    return {partition: tuple(sorted(theirs)) for partition, theirs in gaps.items()}


def _by_partition(snapshot: Snapshot, folder: str) -> dict[int, tuple[ArchivedFile, ...]]:
    found: dict[int, list[ArchivedFile]] = {}
    for data in snapshot.files.values():
        file = archived_file(data, folder)
        found.setdefault(file.partition, []).append(file)
    return {
        partition: tuple(sorted(files, key=lambda file: file.first))
        for partition, files in found.items()
    }
