"""What one Fetch answer brings for one span: sound batches, how far they reach, what is damaged.

Only headers and checksums are looked at, so that the next question can be on its way before the
records are decoded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.spark.places import Place
from barnabas.wire.records.batch import HEADER_BYTES, MAGIC, BatchHeader, parse_header, problem_of


class Batch(NamedTuple):
    """One sound batch; rows below `first` were read before it."""

    position: int
    header: BatchHeader
    first: int


class Portion(NamedTuple):
    """The batches of one answer that concern a span which ends at `end`."""

    place: Place
    data: memoryview
    batches: list[Batch]
    aborted: Sequence[tuple[int, int]]
    end: int


class Damage(NamedTuple):
    """A batch that is not as it was written.

    `after` is where the next sound batch begins, or None where the answer does not tell.
    """

    offset: int
    problem: str
    after: int | None


class Examined(NamedTuple):
    """The sound batches up to the first damage, and the offset to go on at.

    `missing_bytes` is the size of a batch that was cut short because too few bytes were asked
    for: zero unless it is the first one.
    """

    batches: list[Batch]
    next_offset: int
    damage: Damage | None
    missing_bytes: int


def examine(data: memoryview, offset: int, end: int) -> Examined:
    """The batches with records from `offset` on and before `end`.

    `next_offset` never goes back and never passes a batch that was not looked at; it is `end`
    as soon as nothing that follows can concern the span.
    """
    batches: list[Batch] = []
    size = len(data)
    at = 0
    if 0 < size < HEADER_BYTES:
        return Examined(batches, offset, None, HEADER_BYTES)
    while size - at >= HEADER_BYTES and offset < end:
        header = parse_header(data, at)
        if header.magic == MAGIC and header.length > 0 and at + header.size > size:
            missing_bytes = 0 if at else header.size
            return Examined(batches, offset, None, missing_bytes)
        problem = problem_of(data, at, header)
        if problem is not None:
            after = _next_offset(data, at, header, offset)
            return Examined(batches, offset, Damage(offset, problem, after), 0)
        if header.base_offset >= end:
            return Examined(batches, end, None, 0)
        if header.last_offset >= offset:
            batches.append(Batch(at, header, offset))
            offset = header.last_offset + 1
        at += header.size
    return Examined(batches, min(offset, end), None, 0)


def _next_offset(data: memoryview, at: int, header: BatchHeader, offset: int) -> int | None:
    """Where the batch after a damaged one begins.

    What the damaged one says of its own end may be the damage, so only a sound batch behind it
    is believed.
    """
    at += header.size
    if header.magic != MAGIC or header.size < HEADER_BYTES or len(data) - at < HEADER_BYTES:
        return None
    follower = parse_header(data, at)
    if problem_of(data, at, follower) is not None or follower.base_offset <= offset:
        return None
    return follower.base_offset
