"""What happened in a simulation, boiled down to a hash: same seed, same hash."""

import hashlib
from collections import deque
from collections.abc import Sequence

_LINES_KEPT = 1_000
"""Enough to see what led to a failure; the hash covers the rest."""


class Trace:
    """A running hash of every event, and the last of them in words."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._last: deque[str] = deque(maxlen=_LINES_KEPT)
        self._fresh: list[str] = []

    def note(self, line: str) -> None:
        """Add one event. The line must not hold anything that differs between two runs."""
        self._fresh.append(line)
        if len(self._fresh) >= _LINES_KEPT:
            self._settle()

    def digest(self) -> str:
        """The hash of all events so far."""
        self._settle()
        return self._hash.hexdigest()

    def last(self) -> Sequence[str]:
        """The latest events, oldest first."""
        self._settle()
        return list(self._last)

    def _settle(self) -> None:
        if self._fresh:
            self._hash.update("\n".join((*self._fresh, "")).encode())
            self._last.extend(self._fresh)
            self._fresh.clear()
