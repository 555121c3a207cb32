"""One segment: a file of batches from a base offset on, and its two sparse indexes."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crc32c import crc32c

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.log.index import (
    TIME_ENTRY_BYTES,
    OffsetIndex,
    ReadAt,
    TimeIndex,
    stored_before,
    stored_floor,
)
from barnabas.log.rewriting import rewrite
from barnabas.ports.files import Buffer, File, Files
from barnabas.wire.records.batch import NO_TIMESTAMP, BatchHeader

RELATIVE_OFFSET_MAX = 2**31 - 1

NOT_IN_MEMORY: Final = -1
"""Where a batch begins is for the index's file to tell."""

_MOVED: Final = (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)
"""The files that bear a segment's mark."""


class NotCachedError(Exception):
    """The bytes are not in the page cache; read them off the loop."""


class Segment:
    """Batches whose offsets begin at `base_offset`. Only the newest segment is appended to."""

    __slots__ = (
        "_closed",
        "_file",
        "_files",
        "_indexed_size",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_opening",
        "_time_index",
        "base_offset",
        "bounds_known",
        "bounds_proven",
        "created_ms",
        "directory",
        "first_timestamp",
        "index_entries",
        "mark",
        "name_synced",
        "size",
        "touched_ms",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, now_ms: int) -> None:
        self._files = files
        self._file: File | None = None
        self._closed = False
        self._opening = threading.Lock()
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._indexed_size = 0
        self.index_entries = 0
        self.directory = directory
        self.base_offset = base_offset
        self.mark = ""
        """What follows the names of its files while compaction puts it in or out."""
        self.created_ms = self.touched_ms = now_ms
        self.size = 0
        self.first_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self.bounds_known = self.bounds_proven = True
        """Whether the time bounds are in memory, and whether more than an index says them."""
        self.name_synced = False

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int, now_ms: int) -> "Segment":
        """Start an empty segment."""
        segment = cls(files, directory, base_offset, now_ms)
        segment._file = files.open(segment.path(names.LOG), create=True)
        if segment._file.size() > 0:
            segment._file.truncate(0)
        segment.reset_indexes()
        return segment

    @classmethod
    def existing(
        cls, files: Files, directory: str, base_offset: int, now_ms: int, mark: str = ""
    ) -> "Segment":
        """A segment found on disk; its file and indexes are opened when first needed."""
        segment = cls(files, directory, base_offset, now_ms)
        segment.mark = mark
        segment.size = files.size_of(segment.path(names.LOG))
        segment.name_synced = True
        segment.bounds_known = segment.bounds_proven = False
        return segment

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp; for a segment found on disk, the first to ask reads it there."""
        if not self.bounds_known:
            self.load_time_bounds()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """Last offset of the batch that holds `max_timestamp`."""
        if not self.bounds_known:
            self.load_time_bounds()
        return self._max_timestamp_offset

    @property
    def newest_ms(self) -> int:
        """When the newest record was written: by its timestamp or, without any, by our clock."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.touched_ms

    def jitter_ms(self, config: TopicConfig) -> int:
        """What `segment.jitter.ms` takes off this segment's time, so that not all roll at once.

        Chance need not come into it: any number does that differs from partition to partition
        and from segment to segment. This one is made of their names, and outlives a restart.
        """
        at_most = min(config.segment_jitter_ms, config.segment_ms)
        folder = self.directory.rpartition("/")[2]
        return crc32c(f"{folder}/{self.base_offset}".encode()) % at_most if at_most > 0 else 0

    def path(self, suffix: str) -> str:
        """The path of one of the segment's files."""
        mark = self.mark if suffix in _MOVED else ""
        return f"{self.directory}/{names.file_name(self.base_offset, suffix)}{mark}"

    def move(self, mark: str) -> None:
        """Give the files another mark, all or none of them; whoever reads them goes on."""
        with self._opening:
            before = self.mark
            done: list[str] = []
            self._tell_file(mark)
            try:
                for suffix in _MOVED:
                    if self._rename(suffix, before, mark):
                        done.append(suffix)  # noqa: PERF401 - it must be known when one fails
            except OSError:
                for suffix in reversed(done):
                    self._rename(suffix, mark, before)
                self._tell_file(before)
                raise
            self.mark = mark

    def _tell_file(self, mark: str) -> None:
        if self._file is not None:
            name = names.file_name(self.base_offset, names.LOG)
            self._file.moved(f"{self.directory}/{name}{mark}")

    def _rename(self, suffix: str, before: str, after: str) -> bool:
        stem = f"{self.directory}/{names.file_name(self.base_offset, suffix)}"
        if not self._files.exists(stem + before):
            return False
        self._files.rename(stem + before, stem + after)
        return True

    @property
    def is_open(self) -> bool:
        """Whether `file` is there without a look at the disk."""
        return self._file is not None

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, for instance to be removed."""
        return self._closed

    @property
    def file(self) -> File:
        """The log file, open; EBADF once the segment is closed, as from a closed file."""
        file = self._file
        return self._opened() if file is None else file

    def _opened(self) -> File:
        # Searches run beside the loop: two who open at once must not get a descriptor each.
        with self._opening:
            if self._closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path(names.LOG))
            if self._file is None:
                self._file = self._open_file(self.path(names.LOG))
            return self._file

    def _open_file(self, path: str) -> File:
        return self._files.open(path)

    @property
    def offset_index(self) -> OffsetIndex:
        """Where batches begin."""
        if self._offset_index is None:
            self._offset_index = OffsetIndex.from_bytes(self._read_index(names.OFFSET_INDEX))
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """When batches were written."""
        if self._time_index is None:
            self._time_index = TimeIndex.from_bytes(self._read_index(names.TIME_INDEX))
        return self._time_index

    def position_in_memory(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`, or NOT_IN_MEMORY."""
        index = self._offset_index
        return NOT_IN_MEMORY if index is None else index.floor(offset - self.base_offset)

    def position_in_file(self, offset: int, *, cached: bool = False) -> int:
        """The same from the index's file. `cached`: NotCachedError rather than wait for a disk."""
        with self._open_index(names.OFFSET_INDEX) as file:
            if file is None:
                return 0
            read_at = _only_cached(file) if cached else file.pread
            return stored_floor(read_at, file.size(), offset - self.base_offset)

    def last_before(self, timestamp: int) -> tuple[int, int] | None:
        """A timestamp older than that, and the offset of the last batch that it is greatest up to.

        From memory, or from the index's file: it may wait for a disk.
        """
        index = self._time_index
        if index is not None:
            entry = index.before(timestamp)
        else:
            with self._open_index(names.TIME_INDEX) as file:
                entry = stored_before(file.pread, file.size(), timestamp) if file else None
        return None if entry is None else (entry[0], self.base_offset + entry[1])

    @contextmanager
    def _open_index(self, suffix: str) -> Iterator[File | None]:
        """An index file for a moment: each takes a descriptor, and a log has many. None: absent."""
        file = self._opened_index(suffix)
        try:
            yield file
        finally:
            if file is not None:
                file.close()

    def _opened_index(self, suffix: str) -> File | None:
        try:
            return self._files.open_read_only(self.path(suffix))
        except FileNotFoundError:
            # Perhaps it is just getting another name: whoever gives it that holds the lock.
            with self._opening:
                path = self.path(suffix)
                return self._files.open_read_only(path) if self._files.exists(path) else None

    def _read_index(self, suffix: str) -> bytes:
        path = self.path(suffix)
        return self._files.read(path) if self._files.exists(path) else b""

    def has_index_files(self) -> bool:
        """Whether both index files are there."""
        return all(self._files.exists(self.path(s)) for s in (names.OFFSET_INDEX, names.TIME_INDEX))

    def reset_indexes(self) -> None:
        """Forget both indexes, before they are built anew."""
        self._offset_index, self._time_index = OffsetIndex(), TimeIndex()
        self._indexed_size = self.index_entries = 0
        self.first_timestamp = self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self.bounds_known = self.bounds_proven = True

    def load_time_bounds(self) -> None:
        """Take the greatest timestamp of a closed segment from its time index."""
        last = self._last_time_entry()
        if last is not None:
            self._max_timestamp = last[0]
            self._max_timestamp_offset = self.base_offset + last[1]
        self.bounds_known = True

    def _last_time_entry(self) -> tuple[int, int] | None:
        """Read alone where that is possible: a large log has many indexes, none needed at start."""
        with self._open_index(names.TIME_INDEX) as file:
            size = file.size() if file else 0
            if file is None or size == 0:
                return None
            whole = size % TIME_ENTRY_BYTES == 0
            tail = file.pread(TIME_ENTRY_BYTES, size - TIME_ENTRY_BYTES) if whole else b""
            # Zeros at the end are what Kafka allocates ahead.
            return TimeIndex.from_bytes(tail if any(tail) else file.pread(size, 0)).last()

    def append(self, data: Buffer, header: BatchHeader, first_offset: int, interval: int) -> None:
        """Write one batch at the end. `first_offset` is stamped into `data` already."""
        position = self.size
        (self._file or self.file).pwrite(data, position)
        self.note(header, first_offset + header.last_offset_delta, position, interval)
        self.size = position + len(data)

    def note(self, header: BatchHeader, last_offset: int, position: int, interval: int) -> None:
        """Keep the indexes and time bounds true for a batch that lies at `position`."""
        timestamp = header.max_timestamp
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = timestamp
        # What compaction has emptied has no record of that time.
        if timestamp > self._max_timestamp and header.count:
            self._max_timestamp = timestamp
            self._max_timestamp_offset = last_offset
        if position - self._indexed_size > interval:
            self.offset_index.add(last_offset - self.base_offset, position)
            relative = self._max_timestamp_offset - self.base_offset
            self.time_index.maybe_add(self._max_timestamp, relative)
            self._indexed_size = position
            self.index_entries += 1

    def resume_indexing(self) -> None:
        """Go on indexing an existing segment where its index ends."""
        last = self.offset_index.last()
        self._indexed_size = last[1] if last else 0
        self.index_entries = len(self.offset_index)

    def write_indexes(self, *, sync: bool = False) -> None:
        """Write both index files; `sync` when a clean stop will vouch for them."""
        relative = self.max_timestamp_offset - self.base_offset
        self.time_index.maybe_add(self._max_timestamp, relative)
        for suffix, data in (
            (names.OFFSET_INDEX, self.offset_index.to_bytes()),
            (names.TIME_INDEX, self.time_index.to_bytes()),
        ):
            rewrite(self._files, self.path(suffix), data, sync=sync)

    def drop_indexes(self) -> None:
        """Let go of the indexes' memory, once they are written and the segment grows no more."""
        self._offset_index = self._time_index = None

    def truncate(self, size: int) -> None:
        """Cut the file; the caller renews time bounds and indexes."""
        self.file.truncate(size)
        self.size = size

    def close(self) -> None:
        """Release the file for good: whoever comes late must not open a removed one again."""
        with self._opening:
            self._closed = True
            file, self._file = self._file, None
        if file is not None:
            file.close()

    def remove_files(self) -> None:
        """Remove every file of the segment."""
        # The index of transactions by that name belongs to the segment that has replaced this one.
        for suffix in _MOVED if self.mark == names.DELETED else names.SEGMENT_SUFFIXES:
            if self._files.exists(self.path(suffix)):
                self._files.remove(self.path(suffix))


def _only_cached(file: File) -> ReadAt:
    def read_at(length: int, position: int) -> Buffer:
        data = file.pread_cached(length, position)
        if data is None:
            raise NotCachedError
        return data

    return read_at
