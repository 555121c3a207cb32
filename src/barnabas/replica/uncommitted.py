"""How many bytes become committed when a high watermark moves: fetches wait for bytes."""

from collections import deque
from typing import Final

ENOUGH_TO_LOOK: Final = 2**62
"""Of bytes that nobody has counted: whoever waits for some had better see for himself."""

PIECES_MAX: Final = 1_000
"""More are not told apart. While the ISR is too small nothing is committed, and a producer that
does not ask for it (acks=1) goes on all the same, for days."""


class Uncommitted:
    """The sizes of what is not everywhere yet: of batches that were appended by a leader, or of
    what a follower has copied at once. However much that is, it takes little memory."""

    __slots__ = ("_counted_from", "_pieces")

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, int]] = deque()
        """End offset and size of each..."""
        self._counted_from = 0
        """... from this offset on: what was here before, nobody has counted."""

    def begin_at(self, offset: int) -> None:
        """Count anew: the log ends there, in another role or after it was cut."""
        self._pieces.clear()
        self._counted_from = offset

    def add(self, end: int, size: int) -> None:
        """So many bytes more, up to `end`."""
        pieces = self._pieces
        if len(pieces) < PIECES_MAX:
            pieces.append((end, size))
        else:
            # As if it had come at once with what came last.
            pieces[-1] = (end, pieces[-1][1] + size)

    def commit(self, committed: int, offset: int) -> int:
        """How many bytes lie between what was `committed` and `offset`, up to where it is now."""
        size = ENOUGH_TO_LOOK if committed < self._counted_from else 0
        pieces, begin = self._pieces, max(committed, self._counted_from)
        while pieces and pieces[0][0] <= offset:
            begin, some = pieces.popleft()
            size += some
        if pieces and begin < offset:
            # Of what came at once, some: about so much of it as of its offsets.
            end, some = pieces[0]
            part = max(some * (offset - begin) // (end - begin), 1)
            pieces[0] = (end, some - part)
            size += part
        return size
