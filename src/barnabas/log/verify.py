"""Is everything in a data directory as it should be? Every byte is read, nothing is changed.

Indexes are read before the log they belong to, so that a broker that goes on writing makes the
log longer than its index says, and never the other way round.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError
from barnabas.log.dump import (
    StoredPartition,
    StoredSegment,
    checked_batches,
    offset_entries,
    stored_segments,
    time_entries,
)
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from barnabas.log.snapshots import decode_snapshot, snapshots_in
from barnabas.log.verify_transactions import Problem, TransactionCheck
from barnabas.model.errors import DecodeError
from barnabas.ports.files import Files
from barnabas.wire.records.batch import BatchHeader

_REPORT_EVERY: Final = 1024
"""Batches between two words about progress."""


@dataclass(slots=True)
class Tally:
    """What has been looked at so far; `told` hears of it now and then."""

    told: Callable[["Tally"], None]
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0

    def count(self, header: BatchHeader) -> None:
        """One more batch."""
        self.batches += 1
        self.records += header.count
        self.size += header.size
        if self.batches % _REPORT_EVERY == 0:
            self.told(self)


def verify_partition(files: Files, partition: StoredPartition, tally: Tally) -> Iterator[Problem]:
    """Every problem of one partition's files."""
    tally.partitions += 1
    yield from _verify_epochs(files, partition.directory)
    yield from _verify_snapshots(files, partition.directory)
    next_offset = 0
    transactions = TransactionCheck(files, partition.directory)
    for segment in stored_segments(files, partition.directory):
        check = _SegmentCheck(files, segment, max(next_offset, segment.base_offset), transactions)
        if segment.base_offset < next_offset:
            yield Problem(
                segment.path(names.LOG), 0,
                f"the segment overlaps the one before it, which ends at offset {next_offset}",
            )  # fmt: skip
        yield from check.run(tally)
        next_offset = check.next_offset
        tally.segments += 1
        tally.told(tally)


def _verify_epochs(files: Files, directory: str) -> Iterator[Problem]:
    path = f"{directory}/{names.EPOCHS}"
    if not files.exists(path):
        return
    try:
        LeaderEpochs.from_bytes(files.read(path))
    except CheckpointError as error:
        yield Problem(path, 0, f"it holds {error}")


def _verify_snapshots(files: Files, directory: str) -> Iterator[Problem]:
    for _, path in snapshots_in(files, directory):
        try:
            decode_snapshot(files.read(path), 0)
        except FileNotFoundError:
            continue  # A running broker has just replaced it by a newer one.
        except DecodeError as error:
            yield Problem(path, 0, f"it is {error}")


class _SegmentCheck:
    """One pass over a segment, with its indexes followed alongside."""

    def __init__(
        self,
        files: Files,
        segment: StoredSegment,
        next_offset: int,
        transactions: TransactionCheck,
    ) -> None:
        self._segment = segment
        self._path = segment.path(names.LOG)
        self.next_offset = next_offset
        self._offsets = _OffsetIndexCheck(files, segment)
        self._times = _TimeIndexCheck(files, segment)
        self._transactions = transactions
        # Only now, after the indexes, is the end of the log fixed.
        segment.size = segment.file.size()

    def run(self, tally: Tally) -> Iterator[Problem]:
        """Every problem of the segment and its indexes."""
        yield from self._offsets.problems
        yield from self._times.problems
        self._transactions.begin(self._segment)
        whole = True
        for position, header, problem in checked_batches(self._segment):
            if problem is not None:
                yield Problem(self._path, position, f"the batch is damaged: {problem}")
            if header is None:
                whole = False
                break
            tally.count(header)
            if header.base_offset < self.next_offset:
                yield Problem(
                    self._path, position,
                    f"offset {header.base_offset} where {self.next_offset} was next",
                )  # fmt: skip
            self.next_offset = max(self.next_offset, header.last_offset + 1)
            yield from self._offsets.follow(position, header)
            yield from self._times.follow(header)
            if problem is None:
                yield from self._transactions.follow(position, header)
        if whole:
            # Behind a batch that can not be stepped over, nobody knows what the indexes mean.
            yield from self._offsets.finish(self.next_offset)
            yield from self._times.finish(self.next_offset)
            yield from self._transactions.finish(self.next_offset)


@dataclass(slots=True)
class _IndexFile:
    """The entries of an index file, and what is wrong with the file itself."""

    path: str
    base_offset: int
    entry_bytes: int
    entries: list[tuple[int, int]] = field(default_factory=list)
    slot: int = 0
    problems: list[Problem] = field(default_factory=list)

    def load(self, files: Files, decode: Callable[[bytes], list[tuple[int, int]]]) -> None:
        """Read the file; a missing one is no problem, since a broker builds it anew."""
        try:
            data = files.read(self.path)
        except FileNotFoundError:
            return
        self.entries = decode(data)
        used = len(self.entries) * self.entry_bytes
        if len(data) % self.entry_bytes:
            self.complain(f"{len(data)} bytes are no whole number of entries", len(data))
        elif data.count(0, used) != len(data) - used:
            self.complain("the entries do not rise", used)

    def complain(self, what: str, position: int | None = None) -> Problem:
        """A problem with the entry at hand, or at a position."""
        at = self.slot * self.entry_bytes if position is None else position
        problem = Problem(self.path, at, what)
        self.problems.append(problem)
        return problem


class _OffsetIndexCheck:
    """Does every entry lead to the beginning of a batch at or before its offset?"""

    def __init__(self, files: Files, segment: StoredSegment) -> None:
        path = segment.path(names.OFFSET_INDEX)
        self._file = _IndexFile(path, segment.base_offset, OFFSET_ENTRY_BYTES)
        self._file.load(files, offset_entries)
        self.problems = tuple(self._file.problems)

    def follow(self, position: int, header: BatchHeader) -> Iterator[Problem]:
        """The next batch of the segment begins at `position`."""
        file = self._file
        while file.slot < len(file.entries) and file.entries[file.slot][1] <= position:
            relative, points_to = file.entries[file.slot]
            offset = file.base_offset + relative
            if points_to < position:
                yield file.complain(
                    f"offset {offset} points to byte {points_to}, where no batch begins"
                )
            elif header.base_offset > offset:
                yield file.complain(
                    f"offset {offset} points to byte {points_to}, where a batch begins with "
                    f"offset {header.base_offset}"
                )
            file.slot += 1

    def finish(self, next_offset: int) -> Iterator[Problem]:
        """The segment ends before `next_offset`."""
        file = self._file
        if file.slot < len(file.entries):
            relative, points_to = file.entries[file.slot]
            yield file.complain(
                f"offset {file.base_offset + relative} points to byte {points_to}, "
                "where no batch begins"
            )
        elif file.entries and file.base_offset + file.entries[-1][0] >= next_offset:
            yield file.complain(
                f"offset {file.base_offset + file.entries[-1][0]} is behind the segment's last",
                (len(file.entries) - 1) * file.entry_bytes,
            )


class _TimeIndexCheck:
    """Is no record up to an entry's offset newer than the entry says?"""

    def __init__(self, files: Files, segment: StoredSegment) -> None:
        path = segment.path(names.TIME_INDEX)
        self._file = _IndexFile(path, segment.base_offset, TIME_ENTRY_BYTES)
        self._file.load(files, time_entries)
        self.problems = tuple(self._file.problems)

    def follow(self, header: BatchHeader) -> Iterator[Problem]:
        """The next batch of the segment. Timestamps of entries rise, so the first counts."""
        file = self._file
        while (
            file.slot < len(file.entries)
            and file.base_offset + file.entries[file.slot][1] < header.base_offset
        ):
            file.slot += 1
        if file.slot < len(file.entries):
            timestamp, relative = file.entries[file.slot]
            if header.max_timestamp > timestamp and header.count:
                yield file.complain(
                    f"up to offset {file.base_offset + relative} nothing should be newer than "
                    f"{timestamp}, but offset {header.base_offset} is of {header.max_timestamp}"
                )
                file.slot += 1

    def finish(self, next_offset: int) -> Iterator[Problem]:
        """The segment ends before `next_offset`."""
        file = self._file
        if file.entries and file.base_offset + file.entries[-1][1] >= next_offset:
            yield file.complain(
                f"offset {file.base_offset + file.entries[-1][1]} is behind the segment's last",
                (len(file.entries) - 1) * file.entry_bytes,
            )
