"""Warm memory for large reads: a fresh megabyte costs a page fault for each 4 KiB of it."""

import sys
from typing import Final

_KEPT_MAX: Final = 16
"""Buffers kept for the next read; as many large answers can be on their way at once for free."""

_KEPT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Larger ones are rare, and are not kept."""


class WarmBuffers:
    """Hands out buffers, and hands them out again once nobody looks at them any more.

    A view (and every slice of it) keeps a reference to its bytearray, so the count of references
    tells whether one is still somewhere, for instance in a socket's write queue. For one thread.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, length: int) -> memoryview:
        """Room for `length` bytes, with anything in it."""
        for buffer in self._kept:
            if length <= len(buffer) and sys.getrefcount(buffer) == _UNSEEN:
                return memoryview(buffer)[:length]
        return memoryview(self._fresh(length))[:length]

    def _fresh(self, length: int) -> bytearray:
        if length > _KEPT_BYTES_MAX:
            return bytearray(length)
        buffer = bytearray(1 << max(length - 1, 1).bit_length())
        if len(self._kept) >= _KEPT_MAX:
            self._kept.pop(0)
        self._kept.append(buffer)
        return buffer


def _count_unseen() -> int:
    """What the count is in `take` for a buffer without views."""
    for buffer in [bytearray()]:
        return sys.getrefcount(buffer)
    return 0


_UNSEEN: Final = _count_unseen()
