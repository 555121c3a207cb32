"""Slow work without threads: each job happens at one later moment of virtual time."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from barnabas.ports.work import Caller, JobCancelledError, Lane

T = TypeVar("T")

DELAY_S_MAX = 0.05
"""The usual slow fsync. Jobs started close together so may finish in any order."""

STALL_S_MAX = 5.0
"""Now and then a disk takes this long."""

_STALL_CHANCE = 0.01


class SimWork:
    """Runs jobs on the simulated loop, after a delay drawn from the seed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seed: int | str,
        *,
        stall_chance: float = _STALL_CHANCE,
    ) -> None:
        self.slower_s = 0.0
        """By how much, at most, each job takes longer than usual."""
        self._stall_chance = stall_chance
        self._loop = loop
        self._random = random.Random(f"{seed}/work")
        self._waiting: dict[int, _Job] = {}
        self._started = 0
        self._closed = False
        self._apart: _Teller | None = None

    def run(self, job: Callable[[], T], lane: Lane = Lane.READ) -> "asyncio.Future[T]":  # noqa: ARG002
        """Do `job` later, in any lane after any other; the future is resolved then."""
        if self._closed:
            raise RuntimeError("no work can be submitted: it was closed")
        future: asyncio.Future[T] = self._loop.create_future()
        longest = STALL_S_MAX if self._random.random() < self._stall_chance else DELAY_S_MAX
        longest += self.slower_s
        number = self._started = self._started + 1
        timer = self._loop.call_later(self._random.uniform(0, longest), self._perform, number)
        self._waiting[number] = _Job(job, future, timer)
        return future

    def run_apart(
        self, job: Callable[[Caller], T], told: Callable[[Any], None]
    ) -> "asyncio.Future[T]":
        """Do a long job later, all of it at one moment."""
        self._apart = _Teller(told)
        return self.run(partial(job, self._apart))

    async def stop_apart(self) -> None:
        """A long job that has not begun yet ends when it does."""
        if self._apart is not None:
            self._apart.cancelled = True

    def close(self) -> None:
        """Do what is waiting now, in the order it was due, and stop."""
        self._closed = True
        for number in sorted(self._waiting, key=lambda each: self._waiting[each].timer.when()):
            self._waiting[number].timer.cancel()
            self._perform(number)

    def kill(self) -> None:
        """Forget what is waiting, as the end of the process does; nobody is told."""
        self._closed = True
        for waiting in self._waiting.values():
            waiting.timer.cancel()
            waiting.future.cancel()
        self._waiting.clear()

    def _perform(self, number: int) -> None:
        waiting = self._waiting.pop(number)
        if waiting.future.cancelled():
            return
        try:
            answer = waiting.job()
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits the future
            waiting.future.set_exception(error)
        else:
            waiting.future.set_result(answer)


class _Teller:
    """Who has asked for a long job."""

    def __init__(self, told: Callable[[Any], None]) -> None:
        self._told = told
        self.cancelled = False

    def tell(self, part: object) -> None:
        self._told(part)

    def check(self) -> None:
        if self.cancelled:
            raise JobCancelledError


class _Job:
    __slots__ = ("future", "job", "timer")

    def __init__(
        self,
        job: Callable[[], Any],
        future: "asyncio.Future[Any]",
        timer: asyncio.TimerHandle,
    ) -> None:
        self.job = job
        self.future = future
        self.timer = timer
