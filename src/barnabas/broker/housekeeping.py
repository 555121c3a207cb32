"""What must be done again and again: retention, syncing by age, checkpoints, removals."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas.config.broker_config import BrokerConfig
from barnabas.model.errors import KafkaError
from barnabas.ports.clock import Clock
from barnabas.ports.work import Work
from barnabas.replica.service import Replicas

logger = logging.getLogger(__name__)

_REMOVAL_INTERVAL_S: Final = 5.0
_SYNC_INTERVAL_S_MAX: Final = 1.0
"""`flush.ms` is kept to within this, whatever `log.flush.scheduler.interval.ms` says."""


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
        self._running: set[asyncio.Future[None]] = set()

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
            await asyncio.wait(self._running)

    def _again(self, duty: str, interval_s: Callable[[], float]) -> None:
        def fire() -> None:
            # First, so that a duty that fails once is tried again.
            self._again(duty, interval_s)
            getattr(self, duty)()

        loop = asyncio.get_running_loop()
        self._timers[duty] = loop.call_later(interval_s(), fire)

    def retention(self) -> None:
        """Let go of segments past `retention.ms`, `retention.bytes` or the log's start."""
        now_ms = self._clock.wall_ms()
        expiry_ms = self._config().producer_id_expiration_ms
        for partition in self._replicas:
            log = partition.log
            if log.failure is not None:
                continue
            try:
                log.roll_if_expired(now_ms)
                gone = log.expired(now_ms, partition.high_watermark)
                if gone:
                    self._replicas.store.drop_segments(log, gone)
                log.producers.expire(now_ms - expiry_ms)
            except (KafkaError, OSError) as error:
                logger.error("retention of %s has to wait: %s", log.partition.directory, error)

    def sync(self) -> None:
        """Sync rolled segments, and logs whose oldest unsynced batch is older than `flush.ms`.

        Rolled segments are synced whatever the settings, as in Kafka: after an unclean stop only
        what lies behind the last sync has to be looked through.
        """
        now_ms = self._clock.wall_ms()
        for partition in self._replicas:
            log = partition.log
            since_ms = log.unsynced_since_ms
            overdue = since_ms is not None and now_ms - since_ms >= log.config.flush_ms
            if overdue or log.has_unsynced_roll:
                partition.sync()

    def checkpoint(self) -> None:
        """Write down up to where each log is known to be synced."""
        self._off_loop("writing checkpoints", self._replicas.store.checkpoint_job())

    def removal(self) -> None:
        """Remove files whose time has come."""
        due = self._replicas.store.take_due_removals()
        for remove in due:
            self._off_loop("removing deleted files", remove)

    def _off_loop(self, what: str, job: Callable[[], None]) -> None:
        future = self._work.run(job)
        self._running.add(future)

        def done(finished: "asyncio.Future[None]") -> None:
            self._running.discard(finished)
            error = None if finished.cancelled() else finished.exception()
            if error is not None:
                logger.error("%s failed: %s", what, error)

        future.add_done_callback(done)
