"""Holding reading and writing down to a number of bytes a second, on average."""

import time
from typing import Final

from barnabas.ports.clock import Clock

_PAUSE_S_MIN: Final = 0.01
"""Shorter pauses cost more than they hold back."""

_PAUSE_S_MAX: Final = 1.0


class Throttle:
    """Counts what is spent, and pauses when that is ahead of the rate."""

    def __init__(self, bytes_per_second: float, clock: Clock) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._begun = clock.monotonic()
        self._spent = 0

    def spend(self, size: int) -> None:
        """So many bytes were read or written."""
        self._spent += size
        ahead = self._spent / self._rate - (self._clock.monotonic() - self._begun)
        if ahead >= _PAUSE_S_MIN:
            time.sleep(min(ahead, _PAUSE_S_MAX))
