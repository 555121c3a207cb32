"""Slow work (fsync, recovery, cold reads, recompression) that must not hold up the loop."""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Lane(Enum):
    """Who waits for the work. What is slow in one lane holds up nothing in another."""

    READ = "read"
    """A client, for what it asked: cold reads, searches, looking into records."""
    SYNC = "sync"
    """Producers, for their acknowledgements."""
    CHORE = "chore"
    """Nobody in particular: opening, checkpoints, removals. May take long."""


class JobCancelledError(Exception):
    """Nobody wants the job any more."""


class JobDiedError(Exception):
    """The process that did the job is gone, and its answer with it."""


class Caller(Protocol):
    """Who has asked for a long job, as the job sees it."""

    def tell(self, part: object) -> None:
        """Something is done already, before the job is."""
        ...

    def check(self) -> None:
        """To be called now and then. JobCancelledError: stop."""
        ...


class Work(Protocol):
    """Runs plain functions off the event loop."""

    def run(self, job: Callable[[], T], lane: Lane = Lane.READ) -> "asyncio.Future[T]":
        """Start `job` elsewhere; the future is resolved on the calling loop."""
        ...

    def run_apart(
        self, job: Callable[[Caller], T], told: Callable[[Any], None]
    ) -> "asyncio.Future[T]":
        """Start a job that takes long and much, one at a time, where it disturbs nobody.

        It may run in a process of its own: then `job`, what it tells and what it answers are
        pickled. `told` is called on the loop. Ended by `stop_apart`, not by cancelling.
        """
        ...

    async def stop_apart(self) -> None:
        """End the job that runs apart, if any: its future then has JobCancelledError."""
        ...

    def close(self) -> None:
        """Wait for running jobs and stop. Nothing may be submitted afterwards."""
        ...
