"""How much goes into one commit, and in what order, so that nobody sees half of a thing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from barnabas.cluster.changes import Write
from barnabas.ports.coordination import Create, Op, SetData

BYTES_AT_ONCE: Final = 256 * 1024
"""ZooKeeper takes a megabyte; a quarter keeps it free for others in between."""

_OVERHEAD_BYTES: Final = 100
"""What the protocol adds to the path and data of one operation, at most."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One commit, and the writes that others see once it is done."""

    operations: list[Op] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)


def cut(writes: list[Write], bytes_at_once: int | None = None) -> list[Piece]:
    """All at once where that is not too much; else first what prepares, then what is seen, each
    write of it whole, then what tidies up."""
    at_once = bytes_at_once or BYTES_AT_ONCE
    everything = [op for each in writes for op in (*each.before, *each.seen, *each.after)]
    if size_of(everything) <= at_once:
        return [Piece(everything, writes)] if everything else []
    return [
        *_portions((op for each in writes for op in each.before), at_once),
        *_whole(writes, at_once),
        *_portions((op for each in writes for op in each.after), at_once),
    ]


def size_of(operations: Iterable[Op]) -> int:
    """About what a commit of these takes on the wire."""
    return sum(
        _OVERHEAD_BYTES
        + len(each.path)
        + (len(each.data) if isinstance(each, Create | SetData) else 0)
        for each in operations
    )


def _portions(operations: Iterable[Op], bytes_at_once: int) -> Iterator[Piece]:
    piece, size = Piece(), 0
    for each in operations:
        more = size_of([each])
        if piece.operations and size + more > bytes_at_once:
            yield piece
            piece, size = Piece(), 0
        piece.operations.append(each)
        size += more
    if piece.operations:
        yield piece


def _whole(writes: Iterable[Write], bytes_at_once: int) -> Iterator[Piece]:
    piece, size = Piece(), 0
    for each in writes:
        more = size_of(each.seen)
        if piece.writes and size + more > bytes_at_once:
            yield piece
            piece, size = Piece(), 0
        piece.operations.extend(each.seen)
        piece.writes.append(each)
        size += more
    if piece.writes:
        yield piece
