"""Who waits for which offset: producers for a commit, fetchers for new bytes."""

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import Final

NEWS_S: Final = 0.01
"""How long a follower waits to hear what is committed. Under load that comes along with the next
records; telling it at once would cost as many answers again."""


GATHER_S: Final = 0.002
GATHER_BYTES: Final = 128 * 1024
"""How long, and up to how many bytes, a follower waits for more of what nobody waits for. Each
answer costs the leader as much as several small batches, and the follower as much again."""


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

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._heap)

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
        """Nothing more will come. Whoever has stopped waiting need not hear of it: that is no
        defect for asyncio to tell of."""
        for _, _, future in self._heap:
            if not future.done():
                future.set_exception(error)
                future.exception()
        self._heap.clear()


class ParkedFetch:
    """One Fetch that waits for `missing` more bytes in any of its partitions, or its deadline."""

    __slots__ = ("_gathered", "_hurries", "_missing", "_timer", "done")

    def __init__(self, missing: int, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = loop.create_future()
        self._missing = missing
        self._hurries = wait_s <= NEWS_S
        self._gathered = 0
        self._timer = loop.call_later(wait_s, self.wake)

    def arrived(self, size: int) -> None:
        """`size` bytes were committed in one of the partitions."""
        self._missing -= size
        if self._missing <= 0:
            self.wake()

    def gather(self, size: int) -> None:
        """As `arrived`, but nobody waits for it to be everywhere: more may come along."""
        self._missing -= size
        if self._missing > 0 or self.done.done():
            return
        is_first = not self._gathered
        self._gathered += size
        if self._gathered >= GATHER_BYTES:
            self.wake()
        elif is_first:
            self._hurries = True
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self.wake)

    def hurry(self) -> None:
        """There is something to tell, though not so much that it could not wait for more."""
        if not self._hurries and not self.done.done():
            self._hurries = True
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(NEWS_S, self.wake)

    def wake(self) -> None:
        """Stop waiting: read again and answer."""
        self._timer.cancel()
        if not self.done.done():
            self.done.set_result(None)
