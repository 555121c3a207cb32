"""From time to time every replicated log is read, slowly, so that damage is noticed while another
replica can still mend it, and not when this one is the last, or is asked for it as a leader."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.broker.rest import Rest
from barnabas.config.broker_config import BrokerConfig
from barnabas.log.log import PartitionLog
from barnabas.log.reading import is_damage
from barnabas.log.scrubbing import Place, Stretch
from barnabas.log.segment import Segment
from barnabas.ports.clock import Clock
from barnabas.ports.work import Lane, Work
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas

logger = logging.getLogger(__name__)

_AT_ONCE_BYTES: Final = 1024 * 1024
"""What is read before others get their turn: some milliseconds of a disk."""

_REST_S: Final = 3600.0
"""How often it is looked whether a pass is due, at least."""


_NOW_S: Final = 0.001
"""A clock that is so close to a moment has reached it."""


class Scrubbing:
    """Looks through the logs of one broker, one after the other."""

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        work: Work,
        config: Callable[[], BrokerConfig],
        damaged: Callable[[Partition, str], object],
    ) -> None:
        """`damaged` is told of each partition in which damage is found."""
        self._replicas = replicas
        self._clock = clock
        self._work = work
        self._config = config
        self._tell_damaged = damaged
        self._stopping = asyncio.Event()
        self._until_due = Rest()
        self._task: asyncio.Task[None] | None = None
        self.passes = 0
        """How often everything was looked through."""

    def start(self) -> None:
        """Begin; the first pass is due after one interval."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """No more reading."""
        self._stopping.set()
        self._until_due.end()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        last_s = self._clock.monotonic()
        while not self._stopping.is_set():
            due_s = last_s + self._interval_s()
            now_s = self._clock.monotonic()
            if due_s - now_s > _NOW_S:
                await self._until_due.take(partial(self._left_s, last_s, now_s))
                continue
            last_s = now_s
            for partition in self._replicas:
                if len(partition.state.replicas) > 1:
                    await self._look_through(partition)
            self.passes += 1

    def reconfigured(self) -> None:
        """Settings have changed: a pass may be due by the new ones."""
        self._until_due.end()

    def _left_s(self, last_s: float, since_s: float) -> float:
        if self._stopping.is_set():
            return 0.0
        until_s = min(last_s + self._interval_s(), since_s + _REST_S)
        return until_s - self._clock.monotonic()

    def _interval_s(self) -> float:
        interval_ms = self._config().scrub_interval_ms
        return interval_ms / 1000 if interval_ms >= 0 else float("inf")

    async def _rest(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def _look_through(self, partition: Partition) -> None:
        for segment in list(partition.log.segments):
            try:
                problem = await self._problem_in(partition.log, segment)
            except OSError as error:
                logger.error("looking through %s failed: %s", partition.log.directory, error)
                problem = str(error) if is_damage(error) else None
            except Exception:
                logger.exception("looking through %s failed", partition.log.directory)
                return
            if problem is not None:
                self._tell_damaged(partition, problem)
                return

    async def _problem_in(self, log: PartitionLog, segment: Segment) -> str | None:
        first = await self._walk(log, segment)
        if first is None:
            return None
        # Once more from the beginning: it may just have been cut, and written anew.
        second = await self._walk(log, segment)
        return second if first == second else None

    async def _walk(self, log: PartitionLog, segment: Segment) -> str | None:
        place = Place(0, segment.base_offset)
        while (stretch := _stretch(log, segment)) is not None and not self._stopping.is_set():
            if stretch.is_through(place):
                return None
            before = place
            place, problem = await self._look(stretch, before)
            if problem is not None:
                return problem if _stretch(log, segment) is not None else None
            rate = self._config().scrub_max_bytes_per_second
            await self._rest((place.position - before.position) / rate)
        return None

    async def _look(self, stretch: Stretch, place: Place) -> tuple[Place, str | None]:
        return await self._work.run(lambda: stretch.look(place, _AT_ONCE_BYTES), Lane.CHORE)


def _stretch(log: PartitionLog, segment: Segment) -> Stretch | None:
    """What of a segment has to be sound now; None: it is none of the log's, or nothing of it is
    promised."""
    if log.failure is not None or log.damage is not None or segment not in log.segments:
        return None
    after = log.next_readable(segment.base_offset)
    if after is not None and segment is not log.segments[-1]:
        seamless = log.is_seamless
        return Stretch(segment, segment.size, after, is_closed=True, is_seamless=seamless)
    return Stretch(segment, segment.size, log.recovery_point, is_closed=False)
