"""Staged files get their names in the archive; only who holds its lock does this."""

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from barnabas.spark.archives.covering import Covered, data_file
from barnabas.spark.archives.layout import STAGING
from barnabas.spark.archives.parquet import RecordsFile
from barnabas.spark.tables import durable
from barnabas.spark.tables.actions import now_ms
from barnabas.spark.tables.snapshot import DataFile


@contextmanager
def staging_folder(folder: str) -> Iterator[str]:
    """For one batch; nothing of it is left at the end, nor of those that were killed before."""
    room = os.path.join(folder, STAGING)
    shutil.rmtree(room, ignore_errors=True)
    mine = os.path.join(room, uuid.uuid4().hex)
    os.makedirs(mine)
    try:
        yield mine
    finally:
        shutil.rmtree(room, ignore_errors=True)


def place(folder: str, staging: str, files: Sequence[Covered]) -> list[DataFile]:
    """Move what was staged to where it stays, durably; nobody reads it before it is committed."""
    placed = []
    changed = {folder}
    for covered in files:
        file, staged = covered.file, covered.staged
        if staged is None:
            staged, size = _empty(staging)
            file = file._replace(size=size)
        path = os.path.join(folder, *file.path.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # What a run that was killed has left there: it was never committed.
        os.replace(staged, path)
        changed.add(os.path.dirname(path))
        placed.append(data_file(file, now_ms()))
    for each in changed:
        durable.sync_folder(each)
    return placed


def _empty(staging: str) -> tuple[str, int]:
    """A file without rows, which stands for offsets without records."""
    file = RecordsFile(os.path.join(staging, f"{uuid.uuid4().hex}.parquet"), "none")
    return file.path, file.close()
