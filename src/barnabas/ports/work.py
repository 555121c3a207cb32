"""Slow work (fsync, recovery, cold reads, recompression) that must not hold up the loop."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Work(Protocol):
    """Runs plain functions off the event loop."""

    def run(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Start `job` elsewhere; the future is resolved on the calling loop."""
        ...

    def close(self) -> None:
        """Wait for running jobs and stop. Nothing may be submitted afterwards."""
        ...
