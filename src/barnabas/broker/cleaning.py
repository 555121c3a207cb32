"""Log compaction on the loop: picks logs, has them cleaned elsewhere, swaps in what came of it.

One log at a time. Whatever else happens to it meanwhile (retention, deletion, another policy)
simply happens: each new segment is put in only if the log still has the very segments that it
was made of.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.broker.rest import Rest
from barnabas.config.broker_config import BrokerConfig
from barnabas.log.cleaner.choosing import (
    Cleanable,
    cleanable,
    dirty_segments,
    filthiest,
    first_dirty_offset,
    plan_cleaning,
)
from barnabas.log.cleaner.cleaning import clean_log
from barnabas.log.cleaner.plan import (
    CleanedSegment,
    CleanerLimits,
    CleaningFailedError,
    CleanReport,
)
from barnabas.log.cleaner.swap import Swap, remove_cleaned
from barnabas.log.log import PartitionLog
from barnabas.log.segment import Segment
from barnabas.ports.clock import Clock
from barnabas.ports.entropy import Entropy
from barnabas.ports.work import JobCancelledError, JobDiedError, Lane, Work
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas
from barnabas.wire.records.batch import HEADER_BYTES, NO_TIMESTAMP, parse_header

logger = logging.getLogger(__name__)

RETRY_S: Final = 600.0
"""A log that could not be cleaned for want of room is tried again after so long. One that is
damaged waits for a restart, as in Kafka."""

_LOOKED_AT_ONCE: Final = 256
"""Partitions looked at before others get their turn on the loop."""

_NEVER: Final = 2**63 - 1


def _nobody_mends(_partition: Partition, _what: str) -> None:
    """It stays as it is."""


class _Abandoned(Exception):  # noqa: N818 - nothing went wrong
    """The log is not to be cleaned any more."""


@dataclass(slots=True)
class _SetAside:
    """A log that could not be cleaned."""

    log: PartitionLog
    retry_s: float


class Cleaning:
    """Cleans the logs of one broker."""

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        entropy: Entropy,
        work: Work,
        config: Callable[[], BrokerConfig],
        damaged: Callable[[Partition, str], object] = _nobody_mends,
    ) -> None:
        """`damaged` is told of a partition whose log turns out to be."""
        self._replicas = replicas
        self._store = replicas.store
        self._files = replicas.store.files
        self._clock = clock
        self._entropy = entropy
        self._work = work
        self._config = config
        self._tell_damaged = damaged
        self._stopping = asyncio.Event()
        self._rest = Rest()
        self._task: asyncio.Task[None] | None = None
        self._set_aside: dict[str, _SetAside] = {}
        self._unnamed: list[Swap] = []
        """Segments that were put in and could not get their final names yet."""
        self.last_report: CleanReport | None = None

    def start(self) -> None:
        """Begin to look for dirty logs."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """No more cleaning; a segment that is being put in gets to its place."""
        self._stopping.set()
        self._rest.end()
        await self._work.stop_apart()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            if not await self._try_next():
                await self._rest.take(partial(self._rest_s, self._clock.monotonic()))

    def reconfigured(self) -> None:
        """Settings have changed: a rest may be over by the new ones."""
        self._rest.end()

    def _rest_s(self, since_s: float) -> float:
        if self._stopping.is_set():
            return 0.0
        return since_s + self._config().cleaner.backoff_ms / 1000 - self._clock.monotonic()

    async def _try_next(self) -> bool:
        try:
            return await self.clean_next()
        except Exception:
            # Whatever it was, the other logs are cleaned all the same.
            logger.exception("looking for logs to compact failed")
            return False

    # --- which log -----------------------------------------------------------------------------

    async def clean_next(self) -> bool:
        """Clean the dirtiest log, if any is dirty enough; whether that was so, and went well."""
        if not self._config().cleaner.enable:
            return False
        for swap in list(self._unnamed):
            await self._name(swap)
        target = await self._next()
        if target is None or self._stopping.is_set():
            return False
        try:
            return await self._clean(target)
        except (_Abandoned, JobCancelledError):
            return False
        except (CleaningFailedError, JobDiedError, OSError) as error:
            self._set_log_aside(target.log, error)
            return False
        except Exception as error:
            logger.exception("%s: compaction failed in an unforeseen way", target.log.directory)
            self._set_log_aside(target.log, error)
            return False

    async def _next(self) -> Cleanable | None:
        self._forget_gone()
        found: list[Cleanable] = []
        for number, partition in enumerate(self._replicas):
            if number % _LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if self._may_be_cleaned(partition.log):
                try:
                    await self._learn_first_timestamps(partition.log)
                    found.append(self._look_at(partition))
                except OSError as error:
                    self._set_log_aside(partition.log, error)
        return filthiest(found)

    def _may_be_cleaned(self, log: PartitionLog) -> bool:
        return (
            log.config.compacts
            and log.failure is None
            and log.directory not in self._set_aside
            and not any(segment.mark for segment in log.segments)
        )

    def _look_at(self, partition: Partition) -> Cleanable:
        log = partition.log
        cleaned_to = self._store.cleaned_to.get(log.partition)
        return cleanable(log, cleaned_to, partition.last_stable_offset, self._clock.wall_ms())

    async def _learn_first_timestamps(self, log: PartitionLog) -> None:
        """`max.compaction.lag.ms` counts from the first batch of a segment, which no index has."""
        if log.config.max_compaction_lag_ms == _NEVER:
            return
        first_dirty = first_dirty_offset(log, self._store.cleaned_to.get(log.partition))
        unknown = [
            segment
            for segment in dirty_segments(log, first_dirty)
            if segment.first_timestamp == NO_TIMESTAMP and segment.size > 0
        ]
        if unknown:
            await self._work.run(lambda: _read_first_timestamps(unknown), Lane.CHORE)

    def _set_log_aside(self, log: PartitionLog, error: Exception) -> None:
        if log.failure is not None:
            return  # It is deleted, or offline: that was told.
        is_damaged = isinstance(error, CleaningFailedError)
        retry_s = float("inf") if is_damaged else self._clock.monotonic() + RETRY_S
        self._set_aside[log.directory] = _SetAside(log, retry_s)
        logger.error(
            "%s can not be compacted and stays as it is %s: %s",
            log.partition.directory,
            "until a restart" if is_damaged else f"for {RETRY_S:.0f} s",
            error,
        )
        partition = self._replicas.find(*log.partition)
        if is_damaged and partition is not None and partition.log is log:
            self._tell_damaged(partition, str(error))

    def _forget_gone(self) -> None:
        now = self._clock.monotonic()
        for directory, aside in list(self._set_aside.items()):
            is_gone = self._store.logs.get(aside.log.partition) is not aside.log
            if is_gone or aside.retry_s <= now:
                del self._set_aside[directory]

    # --- one log -------------------------------------------------------------------------------

    async def _clean(self, target: Cleanable) -> bool:
        log = target.log
        plan = plan_cleaning(
            target, self._limits(), self._entropy.uuid().bytes, self._clock.wall_ms()
        )
        told: asyncio.Queue[CleanedSegment | None] = asyncio.Queue()
        job = self._work.run_apart(
            partial(clean_log, self._files, self._clock, plan), told.put_nowait
        )
        job.add_done_callback(lambda _: told.put_nowait(None))
        whole = True
        try:
            while (cleaned := await told.get()) is not None:
                whole &= await self._swap(log, cleaned)
            report = await job
        except BaseException:
            await self._abort(job, log)
            raise
        self._tell(log, report)
        if whole and self._store.logs.get(log.partition) is log:
            self._store.cleaned_to[log.partition] = report.end_offset
            await self._checkpoint()
        return whole

    async def _checkpoint(self) -> None:
        try:
            await self._work.run(self._store.checkpoint_job(), Lane.CHORE)
        except OSError as error:
            # Housekeeping will write it; until then it costs no more than cleaning once again.
            logger.error("how far compaction has got could not be written down: %s", error)

    def _limits(self) -> CleanerLimits:
        settings = self._config().cleaner
        return CleanerLimits(
            dedupe_bytes=settings.dedupe_buffer_size,
            load_factor=settings.io_buffer_load_factor,
            buffer_bytes=settings.io_buffer_size,
            bytes_per_second=settings.io_max_bytes_per_second,
        )

    async def _abort(self, job: "asyncio.Future[CleanReport]", log: PartitionLog) -> None:
        """Let nothing of an unfinished cleaning stay."""
        if not job.done():
            await self._work.stop_apart()
            await asyncio.wait([job])
        if not job.cancelled():
            job.exception()  # It is known by now that it came to nothing.
        await self._work.run(lambda: remove_cleaned(self._files, log.directory), Lane.CHORE)

    def _tell(self, log: PartitionLog, report: CleanReport) -> None:
        self.last_report = report
        logger.info(
            "%s compacted from offset %d to %d: %d of %d records and %d of %d bytes are left; "
            "%d keys in %.2f s, copied in %.2f s, at most %d MiB of memory%s",
            log.partition.directory, report.first_dirty, report.end_offset,
            report.records_kept, report.records_read, report.bytes_left, report.bytes_read,
            report.keys, report.map_seconds, report.copy_seconds,
            report.peak_memory_bytes // 2**20, "; more keys than fit" if report.map_full else "",
        )  # fmt: skip

    # --- swapping ------------------------------------------------------------------------------

    async def _swap(self, log: PartitionLog, cleaned: CleanedSegment) -> bool:
        """Put a new segment in; False when the log has changed where it belongs."""
        if log.failure is not None or not log.config.compacts:
            raise _Abandoned
        swap = Swap(self._files, log, cleaned)
        put_in = False
        try:
            if swap.is_possible():
                await self._work.run(swap.prepare, Lane.CHORE)
                # While that went on, anything may have happened.
                if swap.is_possible():
                    swap.put_in(self._clock.wall_ms())
                    put_in = True
        finally:
            if not put_in and self._files.exists(log.directory):
                await self._work.run(swap.undo, Lane.CHORE)
        if put_in:
            self._store.discard(log, swap.replaced, swap.removal())
            self._unnamed.append(swap)
            await self._name(swap)
        return put_in

    async def _name(self, swap: Swap) -> None:
        """The rest of the way. If it has to wait, the log is as good without it."""
        try:
            await self._work.run(swap.sync, Lane.CHORE)
            swap.name()
            await self._work.run(swap.sync, Lane.CHORE)
        except FileNotFoundError:
            logger.info("a log was deleted while it was compacted")
        except OSError as error:
            logger.error("a compacted segment keeps its temporary name for now: %s", error)
            return
        self._unnamed.remove(swap)


def _read_first_timestamps(segments: list[Segment]) -> None:
    for segment in segments:
        head = segment.file.pread(HEADER_BYTES, 0)
        if len(head) == HEADER_BYTES:
            segment.first_timestamp = parse_header(head).max_timestamp
