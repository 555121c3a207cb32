"""The checkpoint of an archive's query, and when it can be gone on with.

Each checkpoint counts its batches from 0, so each has a number of its own: its generation, which
is in the name of the application that commits its batches to the table. A checkpoint that is lost
or does not fit the archive is given up, and a new one begins where the archive ends.
"""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.layout import CHECKPOINTS
from barnabas.spark.errors import SparkJobError
from barnabas.spark.sink.journal import source_offsets
from barnabas.spark.tables.snapshot import Batch

_APPLICATION: Final = re.compile(r"barnabas-archive-([0-9]+)")
_NUMBER: Final = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Generation:
    """One checkpoint, and where its first batch began."""

    folder: str
    number: int
    starts: Mapping[int, int]
    """Of batch 0, by partition: where the archive ended when the generation began."""

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps it."""
        return os.path.join(self.folder, CHECKPOINTS, str(self.number))

    def batch(self, number: int) -> Batch:
        """Which batch of the table one of the query is."""
        return Batch(f"barnabas-archive-{self.number}", number)

    def ends(self, number: int) -> dict[int, int]:
        """Where a batch ends, as Spark has written down before it ran."""
        offsets = source_offsets(self.checkpoint, number)
        return {place.partition: offset for place, offset in offsets.items()}

    def starts_of(self, number: int) -> Mapping[int, int]:
        """Where a batch begins."""
        return self.ends(number - 1) if number else self.starts


def current(contents: Contents, partitions: int) -> Generation:
    """The checkpoint to go on with; a new one where there is none that fits the archive."""
    applied = _applied(contents)
    newest = max(applied, default=-1)
    there = _there(contents.folder)
    starts = {partition: contents.end(partition) for partition in range(partitions)}
    found = Generation(contents.folder, newest, starts)
    if newest >= 0 and newest == max(there, default=-1) and _fits(found, contents, applied[newest]):
        return found
    shutil.rmtree(os.path.join(contents.folder, CHECKPOINTS), ignore_errors=True)
    return Generation(contents.folder, 1 + max([newest, *there], default=-1), starts)


def _fits(found: Generation, contents: Contents, batch: int) -> bool:
    """Whether the batch that was archived last ended where the archive does."""
    try:
        ends = found.ends(batch)
    except SparkJobError:
        # Not there, or half of it: a disk was full, or somebody tidied up.
        return False
    return all(contents.end(partition) == end for partition, end in ends.items()) and (
        contents.ranges.keys() <= ends.keys()
    )


def _applied(contents: Contents) -> dict[int, int]:
    """For each generation its last batch that is in the archive."""
    found = {}
    for application, number in contents.snapshot.transactions.items():
        named = _APPLICATION.fullmatch(application)
        if named is not None:
            found[int(named[1])] = number
    return found


def _there(folder: str) -> list[int]:
    try:
        names = os.listdir(os.path.join(folder, CHECKPOINTS))
    except FileNotFoundError:
        return []
    return [int(name) for name in names if _NUMBER.fullmatch(name)]
