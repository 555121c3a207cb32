"""Clocks that go only as the simulation goes."""

import asyncio

BASE_WALL_MS = 1_700_000_000_000
"""14 November 2023: a date that looks like a date in records and dumps."""


class SimClock:
    """Virtual time, with a wall clock that can be made to jump."""

    def __init__(self, loop: asyncio.AbstractEventLoop, base_wall_ms: int = BASE_WALL_MS) -> None:
        self._loop = loop
        self._base_wall_ms = base_wall_ms

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as this machine believes."""
        return self._base_wall_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        """Seconds of virtual time."""
        return self._loop.time()

    def jump(self, ms: int) -> None:
        """Set the wall clock forward (or back, if negative), as an operator or NTP may."""
        self._base_wall_ms += ms
