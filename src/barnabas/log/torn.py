"""What a kill leaves at the end of a segment, told from what only damage can.

A process that dies while it writes leaves the beginning of its last batch, and nothing behind it.
Where a batch seems to go on behind the end of the file because its length was damaged, it is there
as a whole, or there are others behind it. The difference matters: what was never whole, nobody
counts on.
"""

from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from barnabas.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas.wire.records.batch import (
    CRC_FROM,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    parse_header,
    problem_of,
)

_TORN_BYTES_MAX: Final = 128 * 1024 * 1024
"""A request that brings a batch is not larger, unless somebody has set it so."""

_MAGIC_AT: Final = 16
_MAGIC_BYTE: Final = bytes([MAGIC])


def is_torn(segment: Segment, position: int, next_offset: int) -> bool:
    """Whether nothing but the beginning of a batch lies there, as far as anybody can tell;
    `next_offset` is the one that it would have begun at."""
    left = segment.size - position
    if left < HEADER_BYTES:
        return True
    if left > _TORN_BYTES_MAX:
        return False
    tail = bytes(segment.file.pread(left, position))
    header = parse_header(tail)
    if header.magic != MAGIC or header.size <= len(tail) or header.base_offset < next_offset:
        return False
    highest = segment.base_offset + RELATIVE_OFFSET_MAX
    return not _is_followed(tail, header, next_offset, highest)


def _is_followed(tail: bytes, first: BatchHeader, next_offset: int, highest: int) -> bool:
    """Whether the first batch is whole though its length says otherwise, or a whole one follows."""
    view = memoryview(tail)
    crc, checked = 0, CRC_FROM
    for at in _beginnings(tail):
        if at + HEADER_BYTES <= len(tail):
            header = parse_header(tail, at)
            if not next_offset < header.base_offset <= highest:
                continue
            if problem_of(tail, at, header) is None:
                return True
        crc, checked = crc32c(view[checked:at], crc), at
        if crc == first.crc:
            return True
    return False


def _beginnings(tail: bytes) -> Iterator[int]:
    """Where another batch could begin, its header cut short or not; and the end."""
    at = HEADER_BYTES
    while (found := tail.find(_MAGIC_BYTE, at + _MAGIC_AT)) >= 0:
        at = found - _MAGIC_AT
        yield at
        at += 1
    yield from range(max(at, len(tail) - _MAGIC_AT, HEADER_BYTES), len(tail) + 1)
