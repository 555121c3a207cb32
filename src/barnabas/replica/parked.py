"""Who waits for which offset: producers for a commit, fetchers for new bytes."""

import asyncio
from heapq import heappop, heappush
from itertools import count


class ParkedAppends:
    """Producers that wait until everything below an offset is committed (or synced)."""

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    def park(self, offset: int) -> "asyncio.Future[None]":
        """A future that is done once `release` has reached `offset`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._heap, (offset, next(self._order), future))
        return future

    def waits_for(self, offset: int) -> bool:
        """Whether somebody waits for `offset` or more."""
        return any(parked >= offset for parked, _, _ in self._heap)

    def release(self, up_to: int) -> None:
        """Everything below `up_to` is there."""
        while self._heap and self._heap[0][0] <= up_to:
            future = heappop(self._heap)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Nothing more will come."""
        for _, _, future in self._heap:
            if not future.done():
                future.set_exception(error)
        self._heap.clear()


class ParkedFetch:
    """One Fetch that waits for `missing` more bytes in any of its partitions, or its deadline."""

    __slots__ = ("_missing", "_timer", "done")

    def __init__(self, missing: int, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = loop.create_future()
        self._missing = missing
        self._timer = loop.call_later(wait_s, self.wake)

    def arrived(self, size: int) -> None:
        """`size` bytes were committed in one of the partitions."""
        self._missing -= size
        if self._missing <= 0:
            self.wake()

    def wake(self) -> None:
        """Stop waiting: read again and answer."""
        self._timer.cancel()
        if not self.done.done():
            self.done.set_result(None)
