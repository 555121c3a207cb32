"""One partition as its leader sees it: appending, committing, and who waits for that.

With a single replica a batch is committed as soon as it is appended; with `flush.messages=1`, as
soon as it is synced.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas.log.log import Appended, PartitionLog
from barnabas.log.reading import ReadResult
from barnabas.log.syncing import SyncJob, SyncPostponedError
from barnabas.log.txn_index import AbortedTransaction
from barnabas.log.verification import VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.ports.work import Lane, Work
from barnabas.replica.parked import ParkedAppends, ParkedFetch
from barnabas.wire.records.batch import BatchHeader

logger = logging.getLogger(__name__)

_POSTPONED_SYNC_S: Final = 1.0
"""When a sync that found no room is tried again."""

_MARKER_BYTES: Final = 78
"""A batch of one record, of a key of four bytes and a value of six."""


class Partition:
    """One partition that this broker leads."""

    __slots__ = (
        "_commits",
        "_disk_failed",
        "_fetches",
        "_stable_fetches",
        "_stopped",
        "_sync_again",
        "_syncing",
        "_syncs",
        "_told_stable",
        "_uncommitted_bytes",
        "_unsynced_count",
        "_work",
        "deferred",
        "high_watermark",
        "leader_epoch",
        "log",
        "order",
    )

    def __init__(
        self,
        log: PartitionLog,
        leader_epoch: int,
        work: Work,
        disk_failed: Callable[[str], None],
    ) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.high_watermark = log.end_offset
        self.order = asyncio.Lock()
        """Held by an append that has to look into records off the loop."""
        self.deferred = 0
        """Appends that wait for `order`: while there are any, others queue behind them."""
        self._work = work
        self._disk_failed = disk_failed
        self._commits = ParkedAppends()
        self._syncs = ParkedAppends()
        # (Dictionaries, because an empty set takes three times the memory of an empty one.)
        self._fetches: dict[ParkedFetch, None] = {}
        self._stable_fetches: dict[ParkedFetch, None] = {}
        """Those of readers of committed records."""
        self._told_stable = (self.high_watermark, self.high_watermark)
        """Last stable offset and high watermark that these know of."""
        self._unsynced_count = 0
        self._uncommitted_bytes = 0
        self._syncing: asyncio.Future[None] | None = None
        self._sync_again = False
        self._stopped = False

    # --- transactions --------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """What `read_committed` may see: all before it is committed, and of no open transaction."""
        transactions = self.log.producers.transactions
        if not transactions:
            return self.high_watermark
        unstable = transactions.first_unstable(self.high_watermark)
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log.start_offset)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a batch of this producer belongs to a transaction that is open here already."""
        return self.log.producers.has_open_transaction(producer_id, epoch)

    def begin_verification(
        self, header: BatchHeader, now_ms: int, *, bumps_epochs: bool
    ) -> VerificationGuard:
        """The guard under which the coordinator is asked about a transactional batch.

        `bumps_epochs`: the producer begins every transaction with an epoch of its own (KIP-890).
        INVALID_PRODUCER_EPOCH: a newer one has been here.
        """
        return self.log.producers.begin_verification(header, now_ms, bumps_epochs=bumps_epochs)

    def aborted_transactions(
        self, first: int, up_to: int
    ) -> "list[AbortedTransaction] | asyncio.Future[list[AbortedTransaction]]":
        """What was aborted among the offsets from `first` on, below `up_to`."""
        search = self.log.aborted_search(first, up_to)
        if search is None:
            return []
        found = search.read_cached()
        return self._work.run(search.read) if found is None else found

    # --- appending -----------------------------------------------------------------------------

    def append(
        self,
        records: memoryview,
        header: BatchHeader,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> tuple[Appended, "asyncio.Future[None] | None"]:
        """Append a checked batch. The future, if any, is done when it may be acknowledged.

        INVALID_TXN_STATE: it would open a transaction, and no valid guard came with it.
        """
        appended = self.log.append(records, header, self.leader_epoch, now_ms, guard)
        if appended.repeated:
            return appended, self._promised(appended.last_offset + 1)
        return appended, self._acknowledged(appended, len(records), header.count)

    def append_marker(
        self, marker: Marker, now_ms: int
    ) -> tuple[Appended, "asyncio.Future[None] | None"]:
        """Append the end of a transaction, as `append` does a batch. KafkaError:
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR."""
        appended = self.log.append_marker(marker, self.leader_epoch, now_ms)
        acknowledged = self._acknowledged(appended, _MARKER_BYTES, 1)
        # Nobody may ever read here: what has ended must not pile up until somebody does.
        self.log.producers.transactions.settle(self.high_watermark)
        return appended, acknowledged

    def _acknowledged(
        self, appended: Appended, size: int, count: int
    ) -> "asyncio.Future[None] | None":
        """What has to be waited for before a batch that was written is acknowledged."""
        flush_messages = self.log.config.flush_messages
        end = appended.last_offset + 1
        if flush_messages == 1 or appended.first_offset > self.high_watermark:
            # (The latter: it was 1 a moment ago, and what came before still waits for its sync.)
            self._uncommitted_bytes += size
            self.sync()
            return self._commits.park(end)
        self._commit(end, size)
        self._unsynced_count += count
        if self._unsynced_count >= flush_messages:
            self.sync()
            return self._syncs.park(end)
        return None

    def _promised(self, end: int) -> "asyncio.Future[None] | None":
        """What a repeated batch has to wait for: the same as the batch it repeats."""
        if end > self.high_watermark:
            return self._commits.park(end)
        return self._syncs.park(end) if self._syncs.waits_for(end) else None

    def _commit(self, offset: int, size: int) -> None:
        """Everything below `offset` is committed: tell those who wait for it."""
        self.high_watermark = offset
        self._commits.release(offset)
        if self._fetches:
            for fetch in tuple(self._fetches):
                fetch.arrived(size)
        if self._stable_fetches:
            self._tell_stable(size)

    def _tell_stable(self, size: int) -> None:
        """Tell readers of committed records of what they may see by now.

        How many bytes the end of a transaction sets free, nobody has counted: enough to look.
        """
        (told, watermark), stable = self._told_stable, self.last_stable_offset
        self._told_stable = stable, self.high_watermark
        if stable == told:
            return
        for fetch in tuple(self._stable_fetches):
            if told < watermark:
                fetch.wake()
            else:
                fetch.arrived(size)

    # --- syncing -------------------------------------------------------------------------------

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
            self._stopped = True
            self._disk_failed(f"syncing {self.log.directory} failed: {error or 'cancelled'}")
            return
        self.log.synced(job)
        self._syncs.release(self.log.recovery_point)
        if self.log.recovery_point > self.high_watermark:
            size, self._uncommitted_bytes = self._uncommitted_bytes, 0
            self._commit(self.log.recovery_point, size)
        if self._sync_again:
            self._sync_again = False
            self.sync()

    def _postpone(self, job: SyncJob, error: SyncPostponedError) -> None:
        """A full disk: nothing is lost, nothing is acknowledged, and it is tried again."""
        logger.warning("%s", error)
        self.log.postpone(job)
        asyncio.get_running_loop().call_later(_POSTPONED_SYNC_S, self.sync)

    # --- reading -------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, up_to: int, *, at_least_one: bool
    ) -> "ReadResult | asyncio.Future[ReadResult] | None":
        """Batches from `offset` on: at once when cached, else a future. None: nothing yet."""
        log = self.log
        while True:
            plan = log.plan_read(offset, max_bytes, up_to, at_least_one=at_least_one)
            if plan is None:
                return None
            result = plan.read_cached()
            if result is None:
                return self._work.run(plan.read)
            if result.data or result.next_position < plan.end:
                log.remember(plan, result)
                return result
            # Compaction can leave nothing at the end of a segment: go on in the next.
            following = log.next_readable(offset)
            if following is None:
                return result
            offset = following

    def park_fetch(self, fetch: ParkedFetch, *, committed_only: bool = False) -> None:
        """Tell `fetch` about every commit from now on, or every move of the last stable offset."""
        if committed_only:
            self._told_stable = self.last_stable_offset, self.high_watermark
            self._stable_fetches[fetch] = None
        else:
            self._fetches[fetch] = None

    def unpark_fetch(self, fetch: ParkedFetch) -> None:
        """It waits no more."""
        self._fetches.pop(fetch, None)
        self._stable_fetches.pop(fetch, None)

    def wake_fetches(self) -> None:
        """Let everybody who waits for bytes read again and answer."""
        for fetch in (*self._fetches, *self._stable_fetches):
            fetch.wake()

    # --- ending --------------------------------------------------------------------------------

    def stop(self, code: ErrorCode, reason: str) -> None:
        """This broker serves the partition no more: everybody who waits is told."""
        self._stopped = True
        self.log.fail(reason)
        error = KafkaError(code, reason)
        self._commits.fail(error)
        self._syncs.fail(error)
        self.wake_fetches()
