"""Writing a segment that is to replace others: its files bear `.cleaned` until it is put in."""

from typing import Final

from barnabas.log import names
from barnabas.log.cleaner.plan import CleanedSegment, CleanPlan
from barnabas.log.rewriting import rewrite
from barnabas.log.segment import Segment
from barnabas.log.txn_index import AbortedTransaction, encode_aborted
from barnabas.ports.files import Buffer, Files
from barnabas.wire.records.batch import BatchHeader, parse_header

_BUFFER_BYTES: Final = 256 * 1024


class CleanedWriter:
    """One new segment in the making."""

    def __init__(self, files: Files, plan: CleanPlan, replaces: tuple[int, ...]) -> None:
        self._files = files
        self._plan = plan
        self._replaces = replaces
        self._segment = Segment(files, plan.directory, replaces[0], plan.now_ms)
        self._segment.mark = names.CLEANED
        self._file = files.open(self._segment.path(names.LOG), create=True)
        self._file.truncate(0)
        self._segment.reset_indexes()
        self._pending = bytearray()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._segment.size

    def add(self, batch: Buffer) -> None:
        """One batch more."""
        header: BatchHeader = parse_header(batch)
        interval = self._plan.index_interval_bytes
        self._segment.note(header, header.last_offset, self._segment.size, interval)
        self._segment.size += header.size
        self._pending += batch
        if len(self._pending) >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._file.pwrite(self._pending, self._segment.size - len(self._pending))
        self._pending.clear()

    def finish(self, aborted: list[AbortedTransaction]) -> CleanedSegment:
        """Make it durable, with its name."""
        segment = self._segment
        self._flush()
        self._file.sync()
        self._file.close()
        segment.write_indexes(sync=True)
        self._write_aborted(aborted)
        self._files.sync_dir(self._plan.directory)
        return CleanedSegment(
            segment.base_offset,
            self._replaces,
            segment.size,
            segment.first_timestamp,
        )

    def _write_aborted(self, aborted: list[AbortedTransaction]) -> None:
        """An empty one only where the segment of that name has one, which it must replace."""
        path = self._plan.path(self._replaces[0], names.TRANSACTION_INDEX)
        if aborted or self._files.exists(path):
            data = b"".join(map(encode_aborted, aborted))
            rewrite(self._files, path + names.CLEANED, data, sync=True)

    def discard(self) -> None:
        """It is not wanted: let nothing of it stay."""
        self._file.close()
        for suffix in names.SEGMENT_SUFFIXES:
            path = self._plan.path(self._replaces[0], suffix, names.CLEANED)
            if self._files.exists(path):
                self._files.remove(path)
