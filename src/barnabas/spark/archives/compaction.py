"""Small files next to each other become larger ones: the same rows, in the same order.

A reader that has pinned a snapshot keeps its files for a while after they were replaced.
"""

import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.covering import Covered
from barnabas.spark.archives.layout import (
    ArchivedFile,
    ArchiveError,
    file_name,
    record_offsets,
)
from barnabas.spark.archives.parquet import RecordsFile, row_groups
from barnabas.spark.archives.placing import place, staging_folder
from barnabas.spark.tables.actions import now_ms
from barnabas.spark.tables.log import TableLog

MANY: Final = 8
"""So many files of about one size are merged while an archive grows: each row is written again as
often as its file can grow eightfold, and not with every batch."""
KEPT_MS: Final = 3_600_000
"""For how long files stay that were replaced: longer than any query over them should take."""
_GROWTH: Final = 2
"""A file is merged with younger ones that are, together, at least half as large."""
_OFFSETS: Final = (0, 2**63 - 1)


def due(files: Sequence[ArchivedFile], target: int, many: int) -> list[list[ArchivedFile]]:
    """Which of a partition's files, in order, are to be merged with which: neighbours only.

    From the youngest on, an older one is taken along as long as it is not much larger than what is
    gathered, and all together are no larger than `target`.
    """
    groups: list[list[ArchivedFile]] = []
    group: list[ArchivedFile] = []
    size = 0
    for file in reversed(files):
        apart = bool(group) and group[0].first != file.end
        if apart or size + file.size > target or (group and file.size > _GROWTH * size):
            groups.append(group)
            group, size = [], 0
        group.insert(0, file)
        size += file.size
    groups.append(group)
    return [group for group in reversed(groups) if len(group) >= many and _has_new_name(group)]


def _has_new_name(group: Sequence[ArchivedFile]) -> bool:
    """A file that only takes in empty ones would get the name it has."""
    return sum(1 for file in group if file.records) != 1


def compact(
    log: TableLog,
    contents: Contents,
    *,
    target: int,
    many: int,
    codec: str,
    bytes_max: int | None = None,
) -> Contents:
    """Merge what is due, each group in a commit of its own, up to `bytes_max` in all."""
    left = bytes_max
    for partition in contents.ranges:
        for group in due(contents.files(partition), target, many):
            size = sum(file.size for file in group)
            if left is not None and size > left:
                continue
            left = None if left is None else left - size
            contents = _merge(log, contents, group, codec)
    return contents


def _merge(
    log: TableLog, contents: Contents, group: Sequence[ArchivedFile], codec: str
) -> Contents:
    with staging_folder(contents.folder) as staging:
        merged = _merged(contents, group, os.path.join(staging, uuid.uuid4().hex), codec)
        added = place(contents.folder, staging, [merged])
        snapshot = log.commit(
            contents.snapshot,
            add=added,
            remove=[file.path for file in group],
            operation="OPTIMIZE",
            data_change=False,
            alone=True,
        )
    return Contents(contents.folder, snapshot)


def _merged(contents: Contents, group: Sequence[ArchivedFile], path: str, codec: str) -> Covered:
    file = RecordsFile(path, codec)
    try:
        for each in group:
            before = file.records
            for rows in row_groups(contents.path(each), *_OFFSETS):
                file.add(rows)
            if file.records - before != each.records:
                raise ArchiveError(
                    f"{contents.path(each)} holds {file.records - before} records instead of "
                    f"{each.records}: it was changed after it was written, so put it back from a "
                    "copy, or archive the topic into another folder."
                )
        size = file.close()
    except BaseException:
        file.abandon()
        raise
    return Covered(path, _tagged(contents.topic, group, size, file.data_bytes))


def _tagged(topic: str, group: Sequence[ArchivedFile], size: int, data_bytes: int) -> ArchivedFile:
    partition, first, end = group[0].partition, group[0].first, group[-1].end
    full = [record_offsets(file.path) for file in group if file.records]
    first_record, last_record = (full[0][0], full[-1][1]) if full else (first, end - 1)
    return ArchivedFile(
        file_name(topic, partition, first_record, last_record),
        partition,
        first,
        end,
        sum(file.records for file in group),
        size,
        data_bytes,
        min((each.oldest_ms for each in group if each.oldest_ms is not None), default=None),
        max((each.newest_ms for each in group if each.newest_ms is not None), default=None),
    )


def vacuum(contents: Contents, kept_ms: int = KEPT_MS) -> int:
    """Delete files that do not count any more and that nobody reads by now; how many."""
    before_ms = now_ms() - kept_ms
    expired = [path for path, when in contents.snapshot.removed.items() if when < before_ms]
    return sum(_unlink(contents, path) for path in [*expired, *_left_over(contents, before_ms)])


def _left_over(contents: Contents, before_ms: int) -> Iterable[str]:
    """Files that were placed and never committed, because their run was killed in between."""
    known = contents.snapshot.files.keys() | contents.snapshot.removed.keys()
    for partition in filter(str.isdigit, os.listdir(contents.folder)):
        with os.scandir(os.path.join(contents.folder, partition)) as entries:
            for entry in entries:
                path = f"{partition}/{entry.name}"
                if path not in known and entry.stat().st_mtime * 1000 < before_ms:
                    yield path


def _unlink(contents: Contents, path: str) -> int:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(contents.folder, *path.split("/")))
        return 1
    return 0
