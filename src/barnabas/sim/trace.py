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

    def note(self, line: str) -> None:
        """Add one event. The line must not hold anything that differs between two runs."""
        self._hash.update(line.encode() + b"\n")
        self._last.append(line)

    def digest(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()

    def last(self) -> Sequence[str]:
        """The latest events, oldest first."""
        return list(self._last)
