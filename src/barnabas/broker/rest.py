"""Chores that rest between two rounds, unless what they go by is changed meanwhile."""

import asyncio
from collections.abc import Callable


class Rest:
    """Rests of one chore."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def end(self) -> None:
        """How long it is may have changed, or there is no more to do."""
        self._news.set()

    async def take(self, left_s: Callable[[], float]) -> None:
        """Until nothing is left. `left_s` is asked again whenever somebody has called `end`."""
        await asyncio.sleep(0)  # Also where there is no rest, others get their turn.
        while (seconds := left_s()) > 0:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), seconds)
            except TimeoutError:
                return
