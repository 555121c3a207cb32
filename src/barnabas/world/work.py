"""A few threads for work that would hold up the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.ports.work import Caller, Lane

if TYPE_CHECKING:
    from barnabas.world.apart import Apart

T = TypeVar("T")

THREADS: Final = {Lane.READ: 4, Lane.SYNC: 8, Lane.CHORE: 4}
"""Disks take several reads at once, and file systems make one of many syncs; Python runs one
thread at a time."""


class ThreadWork:
    """Runs jobs on a small pool of threads for each lane, started when its first job comes."""

    def __init__(self, threads: int | None = None, *, processes: bool = True) -> None:
        """`processes`: long jobs get one of their own. Not for files in memory."""
        self._threads = threads
        self._processes = processes
        self._apart: Apart | None = None
        self._long_job: asyncio.Future[Any] | None = None
        self._pools: dict[Lane, Executor] = {}
        self._closed = False

    def run(self, job: Callable[[], T], lane: Lane = Lane.READ) -> "asyncio.Future[T]":
        """Start `job` on a thread; the future is resolved on the running loop."""
        if self._closed:
            raise RuntimeError("no work can be submitted: it was closed")
        pool = self._pools.get(lane) or self._started(lane)
        return asyncio.get_running_loop().run_in_executor(pool, job)

    def run_apart(
        self, job: Callable[[Caller], T], told: Callable[[Any], None]
    ) -> "asyncio.Future[T]":
        """Start a long job in a process, or on a thread, of its own."""
        if self._closed:
            raise RuntimeError("no work can be submitted: it was closed")
        if self._apart is None:
            from barnabas.world.apart import ProcessApart, ThreadApart

            self._apart = ProcessApart() if self._processes else ThreadApart()
        future = self._long_job = self._apart.run(job, told)
        return future

    async def stop_apart(self) -> None:
        """End the job that runs apart, if any."""
        if self._apart is not None and self._long_job is not None:
            self._apart.cancel()
            await asyncio.wait([self._long_job])

    def close(self) -> None:
        """Wait for every submitted job and stop."""
        self._closed = True
        if self._apart is not None:
            self._apart.close()
        for pool in self._pools.values():
            pool.shutdown(wait=True)

    def _started(self, lane: Lane) -> Executor:
        from concurrent.futures import ThreadPoolExecutor

        name = f"barnabas-{lane.value}"
        count = self._threads or THREADS[lane]
        self._pools[lane] = ThreadPoolExecutor(count, thread_name_prefix=name)
        return self._pools[lane]
