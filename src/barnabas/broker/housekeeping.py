"""What must be done again and again: retention, syncing by age, checkpoints, removals.

None of it may cost the loop much, however many partitions there are: duties look at those that
have changed, or at some at a time with the others' requests in between.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import islice
from typing import Any, Final

from barnabas.config.broker_config import BrokerConfig
from barnabas.log.log import PartitionLog
from barnabas.log.retention import is_past_retention
from barnabas.model.errors import KafkaError
from barnabas.ports.clock import Clock
from barnabas.ports.work import Lane, Work
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas

logger = logging.getLogger(__name__)

_REMOVAL_INTERVAL_S: Final = 5.0
_SYNC_INTERVAL_S_MAX: Final = 1.0
"""`flush.ms` is kept to within this, whatever `log.flush.scheduler.interval.ms` says."""

_AT_ONCE: Final = 100
"""Partitions, or removals, that are dealt with at once: well below a millisecond of the loop's."""

_NEVER_MS: Final = 2**63 - 1
"""The default of `flush.ms`: the system syncs when it likes."""


class Housekeeping:
    """Timers on the loop; whatever is slow is handed to Work."""

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        work: Work,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._work = work
        self._config = config
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Begin; each duty comes back by itself."""
        self._again("retention", lambda: self._config().log_retention_check_interval_ms / 1000)
        self._again("sync", lambda: _SYNC_INTERVAL_S_MAX)
        self._again(
            "checkpoint", lambda: self._config().log_flush_offset_checkpoint_interval_ms / 1000
        )
        self._again("removal", lambda: _REMOVAL_INTERVAL_S)

    async def stop(self) -> None:
        """No more duties; those under way are finished."""
        for timer in self._timers.values():
            timer.cancel()
        if self._running:
            await asyncio.wait(self._running.values())

    def _again(self, duty: str, interval_s: Callable[[], float]) -> None:
        def fire() -> None:
            # First, so that a duty that fails once is tried again.
            self._again(duty, interval_s)
            if duty not in self._running:
                self._begin(duty, getattr(self, duty)())

        loop = asyncio.get_running_loop()
        self._timers[duty] = loop.call_later(interval_s(), fire)

    def _begin(self, duty: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._running[duty] = asyncio.get_running_loop().create_task(work)

        def done(finished: "asyncio.Task[None]") -> None:
            del self._running[duty]
            error = None if finished.cancelled() else finished.exception()
            if error is not None:
                logger.error("the duty of %s failed: %s", duty, error, exc_info=error)

        task.add_done_callback(done)

    async def retention(self) -> None:
        """Let go of segments past `retention.ms`, `retention.bytes` or the log's start."""
        now_ms = self._clock.wall_ms()
        expiry_ms = self._config().producer_id_expiration_ms
        partitions = iter(self._replicas)
        while some := list(islice(partitions, _AT_ONCE)):
            await self._read_time_bounds([each.log for each in some], now_ms)
            for partition in some:
                self._retain(partition, now_ms, now_ms - expiry_ms)
            await asyncio.sleep(0)

    async def _read_time_bounds(self, logs: Iterable[PartitionLog], now_ms: int) -> None:
        """How old segments are that were found at start is told by their files."""
        unread = [log for log in logs if _has_unread_bounds(log, now_ms)]

        def read() -> None:
            for log in unread:
                for segment in tuple(log.segments[:-1]):
                    if not is_past_retention(segment, log.config, now_ms):
                        break

        if unread:
            try:
                await self._work.run(read, Lane.CHORE)
            except OSError as error:
                # Whose it is will be seen when that log's turn comes.
                logger.error("the age of a segment can not be told: %s", error)

    def _retain(self, partition: Partition, now_ms: int, unheard_since_ms: int) -> None:
        log = partition.log
        if log.failure is not None:
            return
        try:
            log.roll_if_expired(now_ms)
            gone = log.expired(now_ms, partition.high_watermark)
            if gone:
                self._replicas.store.drop_segments(log, gone)
            log.producers.expire(unheard_since_ms)
        except (KafkaError, OSError) as error:
            logger.error("retention of %s has to wait: %s", log.partition.directory, error)

    async def sync(self) -> None:
        """Sync rolled segments, and logs whose oldest unsynced batch is older than `flush.ms`.

        Rolled segments are synced whatever the settings, as in Kafka: after an unclean stop only
        what lies behind the last sync has to be looked through.
        """
        now_ms = self._clock.wall_ms()
        unsynced = self._replicas.store.attention.unsynced
        noticed = iter(list(unsynced))
        while some := list(islice(noticed, _AT_ONCE)):
            for name in some:
                partition = self._replicas.find(*name)
                if partition is None or not self._may_need_sync(partition, now_ms):
                    unsynced.pop(name, None)
            await asyncio.sleep(0)

    def _may_need_sync(self, partition: Partition, now_ms: int) -> bool:
        """Begin a sync if it is due. False: none will be, until something changes."""
        log = partition.log
        since_ms = log.unsynced_since_ms
        overdue = since_ms is not None and now_ms - since_ms >= log.config.flush_ms
        if overdue or log.has_unsynced_roll:
            partition.sync()
            return True
        return since_ms is not None and log.config.flush_ms < _NEVER_MS

    async def checkpoint(self) -> None:
        """Write down up to where each log is known to be synced."""
        await self._off_loop("writing checkpoints", self._replicas.store.checkpoint_job())

    async def removal(self) -> None:
        """Remove files whose time has come."""
        due = iter(self._replicas.store.take_due_removals())
        while some := list(islice(due, _AT_ONCE)):
            await self._off_loop("removing deleted files", partial(_do_all, some))

    async def _off_loop(self, what: str, job: Callable[[], None]) -> None:
        try:
            await self._work.run(job, Lane.CHORE)
        except OSError as error:
            logger.error("%s failed: %s", what, error)


def _has_unread_bounds(log: PartitionLog, now_ms: int) -> bool:
    """Whether retention would have to look into a file to see where it ends."""
    for segment in log.segments[:-1] if log.config.deletes else ():
        if not segment.bounds_known:
            return True
        if not is_past_retention(segment, log.config, now_ms):
            break
    return False


def _do_all(removals: Iterable[Callable[[], None]]) -> None:
    """One that fails keeps nothing of the others."""
    for remove in removals:
        try:
            remove()
        except OSError as error:
            logger.error("removing deleted files failed: %s", error)
