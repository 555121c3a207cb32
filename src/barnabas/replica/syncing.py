"""When a partition's log is synced, and who waits for that."""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Final

from barnabas.log.log import PartitionLog
from barnabas.log.syncing import SyncJob, SyncPostponedError
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.work import Lane, Work
from barnabas.replica.committing import Committing
from barnabas.replica.parked import ParkedAppends

logger = logging.getLogger(__name__)

_POSTPONED_SYNC_S: Final = 1.0
"""When a sync that found no room is tried again."""


_BROKEN: Final = frozenset({errno.EIO, errno.EROFS, errno.ENXIO, errno.ENODEV})


def is_broken(error: BaseException | None) -> bool:
    """Whether a disk has failed, and not just refused."""
    return isinstance(error, OSError) and error.errno in _BROKEN


class Syncing(Committing):
    """One sync at a time, off the loop; those who come meanwhile share the next."""

    __slots__ = (
        "_disk_failed",
        "_stopped",
        "_sync_again",
        "_syncing",
        "_syncs",
        "_unsynced_count",
    )

    def __init__(self, log: PartitionLog, work: Work, disk_failed: Callable[[str], None]) -> None:
        super().__init__(log, work)
        self._disk_failed = disk_failed
        self._syncs = ParkedAppends()
        self._unsynced_count = 0
        self._syncing: asyncio.Future[None] | None = None
        self._sync_again = False
        self._stopped = False

    def _is_synced(self) -> None:
        """The log counts for more than before."""
        raise NotImplementedError

    @property
    def own_end(self) -> int:
        """How far this replica's own log counts: with `flush.messages=1`, as far as it would
        still be there after a power cut."""
        log = self.log
        return log.recovery_point if log.config.flush_messages == 1 else log.end_offset

    def sync(self) -> None:
        """Make everything written so far durable, soon; one sync covers all that wait for it."""
        if self._stopped:
            return
        self._unsynced_count = 0
        if self._syncing is not None:
            self._sync_again = True
            return
        job = self.log.sync_job()
        if job is None:
            return
        self._syncing = self._work.run(job.run, Lane.SYNC)
        self._syncing.add_done_callback(lambda done: self._synced(job, done))

    def durable(self) -> "asyncio.Future[None] | None":
        """A future that is done once everything written so far is synced; None if it is."""
        end = self.log.end_offset
        if self.log.recovery_point >= end:
            return None
        self.sync()
        return self._syncs.park(end)

    async def settle(self) -> None:
        """Wait until no sync is under way, and begin no other: the log is about to be closed."""
        while self._syncing is not None:
            await asyncio.wait([self._syncing])
            await asyncio.sleep(0)
        self._stopped = True

    def _synced(self, job: SyncJob, done: "asyncio.Future[None]") -> None:
        self._syncing = None
        error = None if done.cancelled() else done.exception()
        if self._stopped:
            return  # For instance the topic was deleted, and its folder renamed under the job.
        if isinstance(error, SyncPostponedError):
            self._postpone(job, error)
            return
        if done.cancelled() or error is not None:
            # After a failed sync the kernel may have dropped the pages: trying again would lie.
            self.fail_disk(f"syncing {self.log.directory} failed: {error or 'cancelled'}")
            return
        self.log.synced(job)
        self._syncs.release(self.log.recovery_point)
        self._is_synced()
        if self._sync_again:
            self._sync_again = False
            self.sync()

    def _postpone(self, job: SyncJob, error: SyncPostponedError) -> None:
        """A full disk: nothing is lost, nothing is acknowledged, and it is tried again."""
        logger.warning("%s", error)
        self.log.postpone(job)
        asyncio.get_running_loop().call_later(_POSTPONED_SYNC_S, self.sync)

    def fail_disk(self, reason: str) -> None:
        """What is on the disk is not known any more: nothing counts until the next start."""
        self._stopped = True
        self._disk_failed(reason)

    def stop(self, code: ErrorCode, reason: str) -> None:
        """This broker serves the partition no more: everybody who waits is told."""
        self._stopped = True
        self.log.fail(reason)
        self._turn_away(KafkaError(code, reason))

    def _turn_away(self, error: KafkaError) -> None:
        """Those who wait shall ask somebody else, or ask again."""
        self._commits.fail(error)
        self._syncs.fail(error)
        self.wake_fetches()
