"""A few threads for work that would hold up the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")

THREADS = 4
"""Enough that one long compaction and one slow fsync leave room for cold reads."""


class ThreadWork:
    """Runs jobs on a small thread pool, started when the first job comes."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._pool: Executor | None = None
        self._closed = False

    def run(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Start `job` on a thread; the future is resolved on the running loop."""
        if self._closed:
            raise RuntimeError("no work can be submitted: it was closed")
        return asyncio.get_running_loop().run_in_executor(self._started(), job)

    def close(self) -> None:
        """Wait for every submitted job and stop."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def _started(self) -> Executor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="barnabas-work")
        return self._pool
