"""Reading a segment from end to end, in pieces of bounded size, with every batch checked."""

from collections.abc import Callable, Iterator
from typing import Final

from barnabas.log.cleaner.plan import CleaningFailedError, Source
from barnabas.model.limits import FRAME_BYTES_MAX
from barnabas.ports.files import Files
from barnabas.wire.records.batch import HEADER_BYTES, BatchHeader, parse_header, problem_of

_BUFFER_BYTES_MIN: Final = 64 * 1024


class SegmentReader:
    """The batches of one segment's file, the first to the last."""

    def __init__(
        self,
        files: Files,
        path: str,
        source: Source,
        buffer_bytes: int,
        spend: Callable[[int], None],
    ) -> None:
        self._files = files
        self._path = path
        self._source = source
        self._size = source.size
        self._buffer_bytes = max(buffer_bytes, _BUFFER_BYTES_MIN)
        self._spend = spend

    def __iter__(self) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
        """Header, bytes, and whether it is the last. CleaningFailedError where there is damage."""
        file = self._files.open_read_only(self._path)
        try:
            position, next_offset = 0, self._source.base_offset
            while position < self._size:
                chunk = self._read(file.pread, position)
                at = 0
                while (header := self._header(chunk, at, position)) is not None:
                    self._check(chunk, at, header, position + at, next_offset)
                    end = at + header.size
                    yield header, chunk[at:end], position + end == self._size
                    next_offset = header.last_offset + 1
                    at = end
                position += at
        finally:
            file.close()

    def _read(self, pread: Callable[[int, int], bytes], position: int) -> memoryview:
        """Some bytes with at least one whole batch among them."""
        left = self._size - position
        if left < HEADER_BYTES:
            self._fail(position, "it is cut short")
        data = pread(min(self._buffer_bytes, left), position)
        if len(data) >= HEADER_BYTES:
            size = parse_header(data).size
            if not HEADER_BYTES <= size <= min(left, FRAME_BYTES_MAX):
                self._fail(position, f"a batch of {size} bytes")
            if size > len(data):
                data = pread(size, position)
            if len(data) < size:
                self._fail(position, "it is cut short")
        else:
            self._fail(position, "it is cut short")
        self._spend(len(data))
        return memoryview(data)

    def _header(self, chunk: memoryview, at: int, position: int) -> BatchHeader | None:
        """That of the next batch, if all of it is there."""
        if len(chunk) - at < HEADER_BYTES:
            return None
        header = parse_header(chunk, at)
        if header.size < HEADER_BYTES:
            self._fail(position + at, f"a batch of {header.size} bytes")
        return header if header.size <= len(chunk) - at else None

    def _check(
        self, chunk: memoryview, at: int, header: BatchHeader, position: int, next_offset: int
    ) -> None:
        problem = problem_of(chunk, at, header)
        if problem is None and header.base_offset < next_offset:
            problem = f"offset {header.base_offset} where {next_offset} was next"
        if problem is None and header.last_offset >= self._source.end_offset:
            # No checksum covers where a batch begins; believed, it would outdate all that follows.
            problem = f"offset {header.last_offset} in a segment to {self._source.end_offset}"
        if problem is not None:
            self._fail(position, problem)

    def _fail(self, position: int, problem: str) -> None:
        raise CleaningFailedError(f"{self._path} is damaged at byte {position}: {problem}")
