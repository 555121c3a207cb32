"""Slow work (fsync, recovery, cold reads, recompression) that must not hold up the loop."""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeVar

T = TypeVar("T")


class Lane(Enum):
    """Who waits for the work. What is slow in one lane holds up nothing in another."""

    READ = "read"
    """A client, for what it asked: cold reads, searches, looking into records."""
    SYNC = "sync"
    """Producers, for their acknowledgements."""
    CHORE = "chore"
    """Nobody in particular: opening, checkpoints, removals. May take long."""


class Work(Protocol):
    """Runs plain functions off the event loop."""

    def run(self, job: Callable[[], T], lane: Lane = Lane.READ) -> "asyncio.Future[T]":
        """Start `job` elsewhere; the future is resolved on the calling loop."""
        ...

    def close(self) -> None:
        """Wait for running jobs and stop. Nothing may be submitted afterwards."""
        ...
