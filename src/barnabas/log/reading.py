"""Reading batches back: find the batch that holds an offset, read on from it, check every CRC.

A plan is made on the loop from memory alone; carrying it out touches only the file, so it may
run on the loop when the bytes are cached, or off it when they are not.
"""

import errno
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.log.segment import NOT_IN_MEMORY, NotCachedError, Segment
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    parse_header,
)

_PROBE_BYTES: Final = 8 * 1024
"""Read at once while looking for a batch: two index intervals."""

_WALK: Final = struct.Struct(">qi4xbIhi")
"""base_offset, length, magic, crc, attributes, last_offset_delta."""

Data = bytes | memoryview
Pread = Callable[[int, int], Data | None]


def is_damage(error: Exception) -> bool:
    """Whether something could not be read because what is stored is damaged, or the disk there."""
    if isinstance(error, KafkaError):
        return error.code is ErrorCode.corrupt_message
    return isinstance(error, OSError) and error.errno == errno.EIO


class ReadResult(NamedTuple):
    """Whole, checked batches, and where the next read goes on."""

    data: memoryview
    next_offset: int
    next_position: int


class ReadPlan(NamedTuple):
    """What to read. `start` is at or before the batch that holds `offset`, or `exact`ly there.

    Or it is NOT_IN_MEMORY: then carrying the plan out begins with the index's file.
    """

    segment: Segment
    start: int
    end: int
    offset: int
    up_to: int
    max_bytes: int
    at_least_one: bool
    exact: bool = False

    def read_cached(self) -> ReadResult | None:
        """Carry it out if no disk is needed, else None."""
        if not self.segment.is_open:
            return None
        try:
            return self._read(self.segment.file.pread_cached, cached=True)
        except NotCachedError:
            return None

    def read(self) -> ReadResult:
        """Carry it out, however long the disk takes."""
        return self._read(self.segment.file.pread, cached=False)

    def _read(self, pread: Pread, *, cached: bool) -> ReadResult:
        """An index is only a cache: when it leads astray, look through the segment instead."""
        start = self.start
        if self.exact:
            return self._read_at(pread, start)
        if start == NOT_IN_MEMORY:
            start = self.segment.position_in_file(self.offset, cached=cached)
        try:
            if start > 0 and is_plausible(pread, start, self.end, self.offset):
                return self._read_from(pread, start)
        except KafkaError as error:
            if error.code is not ErrorCode.corrupt_message:
                raise
        return self._read_from(pread, 0)

    def _read_from(self, pread: Pread, start: int) -> ReadResult:
        position = find_batch(pread, start, self.end, self.offset)
        if position is None:
            return ReadResult(memoryview(b""), self.offset, self.end)
        return self._read_at(pread, position)

    def _read_at(self, pread: Pread, position: int) -> ReadResult:
        data = _must(pread(min(self.max_bytes, self.end - position), position))
        if self.at_least_one:
            data = self._with_first_batch(pread, data, position)
        view = memoryview(data)
        size, next_offset = checked_prefix(view, self.up_to, self.offset)
        return ReadResult(view[:size], next_offset, position + size)

    def _with_first_batch(self, pread: Pread, data: Data, position: int) -> Data:
        """Make sure the first batch is whole, however small the limit: a reader must get on."""
        left = self.end - position
        if len(data) < HEADER_BYTES:
            data = _must(pread(min(HEADER_BYTES, left), position))
        size = parse_header(data).size if len(data) >= HEADER_BYTES else left + 1
        if size <= left and len(data) < size:
            data = _must(pread(size, position))
        if len(data) < size:
            _damaged(0, self.offset)
        return data


def _must(data: Data | None) -> Data:
    if data is None:
        raise NotCachedError
    return data


def is_plausible(pread: Pread, start: int, end: int, offset: int) -> bool:
    """Whether `start` can be where a batch at or before `offset` begins."""
    head = _must(pread(HEADER_BYTES, start))
    if len(head) < HEADER_BYTES:
        return False
    header = parse_header(head)
    fits = HEADER_BYTES <= header.size <= end - start
    return fits and header.magic == MAGIC and header.base_offset <= offset


def find_batch(pread: Pread, position: int, end: int, offset: int) -> int | None:
    """Position of the first batch whose last offset is at or after `offset`.

    None: every batch up to `end` is older. When the walk does not come out at `end`, it was led
    astray by damage: CORRUPT_MESSAGE, for records may lie behind it.
    """
    while end - position >= HEADER_BYTES:
        chunk = _must(pread(min(_PROBE_BYTES, end - position), position))
        at = 0
        while len(chunk) - at >= HEADER_BYTES:
            base, length, _, _, _, delta = _WALK.unpack_from(chunk, at)
            if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                return position + at
            if base + delta >= offset:
                return position + at
            at += length + LOG_OVERHEAD_BYTES
        if at == 0:
            break
        position += at
    if position != end:
        _damaged(0, offset)
    return None


def checked_prefix(view: memoryview, up_to: int, offset: int) -> tuple[int, int]:
    """Size of the sound, whole batches below `up_to`, and the offset that follows them.

    Damage behind sound batches ends the prefix, so that what is sound is served; damage at the
    front raises: it is never served. Offsets lie outside of the checksum: of two that do not rise,
    either may be the wrong one.
    """
    at, end, next_offset = 0, len(view), offset
    before = (0, offset)
    while end - at >= HEADER_BYTES:
        base, length, magic, crc, _, delta = _WALK.unpack_from(view, at)
        size = length + LOG_OVERHEAD_BYTES
        if magic != MAGIC or size < HEADER_BYTES:
            return _damaged(at, next_offset)
        if base >= up_to:
            break
        if at + size > end:
            break
        if crc32c(view[at + 21 : at + size]) != crc:
            return _damaged(at, next_offset)
        if base < next_offset and at > 0:
            return _damaged(*before)
        before = at, next_offset
        at += size
        next_offset = base + delta + 1
    return at, next_offset


def _damaged(at: int, offset: int) -> tuple[int, int]:
    if at == 0:
        raise KafkaError(
            ErrorCode.corrupt_message,
            f"The stored batch at offset {offset} is damaged; `barnabas log verify` tells more.",
        )
    return at, offset


def missing(first: int, up_to: int) -> KafkaError:
    """What to say of a log that lacks what lies between two of its segments."""
    return KafkaError(
        ErrorCode.corrupt_message, f"The stored batches of offsets {first} to {up_to - 1} are gone."
    )


def batches(segment: Segment, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch in a stretch of a segment, unchecked.

    Ends where the next can not be told, be it the end of the stretch or damage.
    """
    position = start
    while end - position >= HEADER_BYTES:
        chunk = segment.file.pread(min(_PROBE_BYTES, end - position), position)
        at = 0
        while len(chunk) - at >= HEADER_BYTES:
            header = parse_header(chunk, at)
            if header.size < HEADER_BYTES or position + at + header.size > end:
                return
            yield position + at, header
            at += header.size
        if at == 0:
            return
        position += at


def all_batches(segment: Segment, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """As `batches`; CORRUPT_MESSAGE when damage keeps it from coming out at `end`."""
    reached, next_offset = start, segment.base_offset
    for position, header in batches(segment, start, end):
        if header.magic != MAGIC or header.base_offset < next_offset:
            _damaged(0, next_offset)
        yield position, header
        reached, next_offset = position + header.size, header.last_offset + 1
    if reached != end:
        _damaged(0, next_offset)
