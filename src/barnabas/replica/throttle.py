"""Copies that are only being made leave room for everybody else (KIP-73).

A topic's settings name the replicas that this goes for, a broker's how many bytes a second they may
take altogether. Only who is not in sync is held back: nobody who writes waits for those.
"""

from collections.abc import Collection
from typing import Final

from barnabas.config.keys import LONG_MAX

EVERY_REPLICA: Final = "*"
_AHEAD_S: Final = 1.0
"""Of what is allowed: so much may go at once, or small rates would let nothing through, and large
ones stumble."""
_WAIT_S_MIN: Final = 0.01
_WAIT_S_MAX: Final = 1.0
"""The rate may be another by then."""


def is_listed(listed: Collection[str], partition: int, broker: int) -> bool:
    """Whether a topic's setting names that partition's replica at that broker."""
    return bool(listed) and (EVERY_REPLICA in listed or f"{partition}:{broker}" in listed)


class Throttle:
    """Counts bytes, and says for how long there were enough."""

    __slots__ = ("_at_s", "_owed")

    def __init__(self) -> None:
        self._owed = 0.0
        """Bytes that went, and whose time has not come yet."""
        self._at_s = 0.0

    def record(self, size: int, rate: int, now_s: float) -> None:
        """So many bytes went; `rate`: how many may in a second."""
        self._pay(rate, now_s)
        self._owed += size

    def wait_s(self, rate: int, now_s: float) -> float:
        """For how long nothing more shall go; 0: it may."""
        if rate >= LONG_MAX:
            return 0.0
        if rate <= 0:
            return _WAIT_S_MAX
        self._pay(rate, now_s)
        ahead_s = self._owed / rate - _AHEAD_S
        return min(max(ahead_s, _WAIT_S_MIN), _WAIT_S_MAX) if ahead_s > 0 else 0.0

    def _pay(self, rate: int, now_s: float) -> None:
        self._owed = max(self._owed - rate * max(now_s - self._at_s, 0.0), 0.0)
        self._at_s = now_s
