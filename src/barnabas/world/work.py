"""A few threads for work that would hold up the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from barnabas.ports.work import Lane

T = TypeVar("T")

THREADS = 4
"""Of each lane. Disks take several reads or syncs at once; Python runs one thread at a time."""


class ThreadWork:
    """Runs jobs on a small pool of threads for each lane, started when its first job comes."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._pools: dict[Lane, Executor] = {}
        self._closed = False

    def run(self, job: Callable[[], T], lane: Lane = Lane.READ) -> "asyncio.Future[T]":
        """Start `job` on a thread; the future is resolved on the running loop."""
        if self._closed:
            raise RuntimeError("no work can be submitted: it was closed")
        pool = self._pools.get(lane) or self._started(lane)
        return asyncio.get_running_loop().run_in_executor(pool, job)

    def close(self) -> None:
        """Wait for every submitted job and stop."""
        self._closed = True
        for pool in self._pools.values():
            pool.shutdown(wait=True)

    def _started(self, lane: Lane) -> Executor:
        from concurrent.futures import ThreadPoolExecutor

        name = f"barnabas-{lane.value}"
        self._pools[lane] = ThreadPoolExecutor(self._threads, thread_name_prefix=name)
        return self._pools[lane]
