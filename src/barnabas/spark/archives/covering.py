"""Which offsets each file of a batch stands for, so that all of them together leave none out.

A batch reads offsets of which some hold no record: compacted away, aborted, the end of a
transaction. They are archived all the same, namely as nothing.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.layout import (
    ArchivedFile,
    ArchiveError,
    Range,
    file_name,
    record_offsets,
)
from barnabas.spark.archives.staging import Portion
from barnabas.spark.places import Place
from barnabas.spark.tables.snapshot import DataFile

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Covered:
    """A file as it will be, and the staged one that becomes it."""

    staged: str | None
    """None where no offset of the range holds a record: an empty file stands for it."""
    file: ArchivedFile


def batch_ranges(
    contents: Contents, starts: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, Range]:
    """What a batch reads of each partition; ArchiveError where that does not follow the archive.

    `starts` are where the batch before has ended; a partition that it did not know begins where
    the archive says.
    """
    ranges = {}
    for partition, end in sorted(ends.items()):
        expected = contents.end(partition)
        first = starts.get(partition, expected)
        if first != expected or end < first:
            place = Place(contents.topic, partition)
            raise ArchiveError(
                f"The next batch has offsets {first} to {end - 1} of {place}, and the archive "
                f"{contents.folder} goes on at {expected}: its checkpoint was changed or put back "
                f"from a copy, so delete {contents.folder}/_checkpoint and start again."
            )
        if end > first:
            ranges[partition] = Range(first, end)
    return ranges


def cover(topic: str, ranges: Mapping[int, Range], portions: Sequence[Portion]) -> list[Covered]:
    """The files of a batch, whose ranges are exactly those that it read."""
    found: list[Covered] = []
    by_partition: dict[int, list[Portion]] = {partition: [] for partition in ranges}
    for portion in sorted(portions, key=lambda portion: (portion.partition, portion.first)):
        if portion.partition not in ranges:
            raise _stray(topic, portion)
        by_partition[portion.partition].append(portion)
    for partition, theirs in by_partition.items():
        at, end = ranges[partition]
        if not theirs:
            found.append(Covered(None, _nothing(topic, partition, at, end)))
        for left, portion in zip(range(len(theirs) - 1, -1, -1), theirs, strict=True):
            if portion.first < at or portion.last >= end:
                raise _stray(topic, portion)
            to = portion.last + 1 if left else end
            found.append(Covered(portion.path, _something(topic, portion, at, to)))
            at = to
    return found


def _something(topic: str, portion: Portion, first: int, end: int) -> ArchivedFile:
    return ArchivedFile(
        file_name(topic, portion.partition, portion.first, portion.last),
        portion.partition,
        first,
        end,
        portion.records,
        portion.size,
        portion.data_bytes,
        portion.oldest_ms,
        portion.newest_ms,
    )


def _nothing(topic: str, partition: int, first: int, end: int) -> ArchivedFile:
    name = file_name(topic, partition, first, end - 1)
    return ArchivedFile(name, partition, first, end, 0, 0, 0, None, None)


def _stray(topic: str, portion: Portion) -> ArchiveError:
    return ArchiveError(
        f"A task brought offsets {portion.first} to {portion.last} of "
        f"{Place(topic, portion.partition)}, which another has brought or which were not asked "
        "for: this is a mistake in Barnabas, so report it."
    )


def data_file(file: ArchivedFile, modified_ms: int) -> DataFile:
    """As the table's log has it, with what lets readers skip it."""
    stats: dict[str, object] = {}
    if file.records:
        first, last = record_offsets(file.path)
        least: dict[str, object] = {"partition": file.partition, "offset": first}
        most: dict[str, object] = {"partition": file.partition, "offset": last}
        oldest, newest = _moment(file.oldest_ms), _moment(file.newest_ms)
        if oldest is not None and newest is not None:
            least["timestamp"], most["timestamp"] = oldest, newest
        stats = {"minValues": least, "maxValues": most, "nullCount": dict.fromkeys(least, 0)}
    return DataFile(file.path, file.size, modified_ms, file.records, tags=file.tags(), stats=stats)


def _moment(timestamp_ms: int | None) -> str | None:
    """As the log has timestamps; None for what no calendar has."""
    if timestamp_ms is None:
        return None
    try:
        # Not by seconds: as a float they would lose a millisecond in later centuries.
        moment = _EPOCH + datetime.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
