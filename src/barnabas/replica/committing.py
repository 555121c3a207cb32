"""What of a partition is committed, and who waits for it: producers, readers, followers."""

import asyncio
from collections.abc import Callable

from barnabas.log.log import PartitionLog
from barnabas.log.reading import ReadResult, is_damage, missing
from barnabas.log.txn_index import AbortedTransaction
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.work import Work
from barnabas.replica.parked import ParkedAppends, ParkedFetch


class Committing:
    """A log, up to where it is committed, and everybody who is to be told when that moves."""

    __slots__ = (
        "_commits",
        "_cuts",
        "_fetches",
        "_follower_fetches",
        "_stable_fetches",
        "_told_stable",
        "_work",
        "found_damage",
        "high_watermark",
        "log",
    )

    def __init__(self, log: PartitionLog, work: Work) -> None:
        self.log = log
        self.high_watermark = log.end_offset
        self._work = work
        self.found_damage: Callable[[Committing, str], bool] = _nobody_mends
        """Called with what could not be read because it is damaged; whether other brokers have it,
        and are about to serve it instead."""
        self._commits = ParkedAppends()
        # (Dictionaries, because an empty set takes three times the memory of an empty one.)
        self._fetches: dict[ParkedFetch, None] = {}
        self._stable_fetches: dict[ParkedFetch, None] = {}
        """Those of readers of committed records."""
        self._follower_fetches: dict[ParkedFetch, None] = {}
        """Those of followers, which may read what is not committed."""
        self._told_stable = (self.high_watermark, self.high_watermark)
        """Last stable offset and high watermark that readers of committed records know of."""
        self._cuts = 0
        """How often the log came to end, or to begin, elsewhere than it did."""

    # --- committing ----------------------------------------------------------------------------

    def committed(self, offset: int) -> "asyncio.Future[None] | None":
        """A future that is done once everything below `offset` is committed; None if it is."""
        return self._commits.park(offset) if offset > self.high_watermark else None

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

    def _set_back(self, high_watermark: int) -> None:
        """The log ends, or begins, elsewhere than it did."""
        self._cuts += 1
        self.high_watermark = high_watermark
        self._told_stable = (high_watermark, high_watermark)

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

    def aborted_transactions(
        self, first: int, up_to: int
    ) -> "list[AbortedTransaction] | asyncio.Future[list[AbortedTransaction]]":
        """What was aborted among the offsets from `first` on, below `up_to`."""
        search = self.log.aborted_search(first, up_to)
        if search is None:
            return []
        found = search.read_cached()
        return self._work.run(search.read) if found is None else found

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
            try:
                result = plan.read_cached()
            except (KafkaError, OSError) as error:
                raise self._unreadable(error) from error
            if result is None:
                return asyncio.ensure_future(self._read_cold(self._work.run(plan.read), self._cuts))
            if result.data or result.next_position < plan.end:
                log.remember(plan, result)
                return result
            # Compaction can leave nothing at the end of a segment: go on in the next.
            following = log.next_readable(offset)
            if following is None:
                return result
            if log.is_seamless:
                raise self._unreadable(missing(offset, following))
            offset = following

    async def _read_cold(self, read: "asyncio.Future[ReadResult]", cuts: int) -> ReadResult:
        try:
            result = await read
        except (KafkaError, OSError) as error:
            if self._cuts != cuts:
                raise _cut_meanwhile() from error
            raise self._unreadable(error) from error
        if self._cuts != cuts:
            raise _cut_meanwhile()
        return result

    def _unreadable(self, error: KafkaError | OSError) -> KafkaError | OSError:
        """What a reader is told."""
        if is_damage(error) and self.found_damage(self, str(error)):
            return KafkaError(
                ErrorCode.not_leader_or_follower,
                "This replica is damaged; another takes over from it.",
            )
        return error

    def park_fetch(self, fetch: ParkedFetch, *, committed_only: bool = False) -> None:
        """Tell `fetch` about every commit from now on, or every move of the last stable offset."""
        if committed_only:
            self._told_stable = self.last_stable_offset, self.high_watermark
            self._stable_fetches[fetch] = None
        else:
            self._fetches[fetch] = None

    def park_follower(self, fetch: ParkedFetch) -> None:
        """Tell `fetch`, of a follower, about everything that is appended or committed."""
        self._follower_fetches[fetch] = None

    def unpark_fetch(self, fetch: ParkedFetch) -> None:
        """It waits no more."""
        self._follower_fetches.pop(fetch, None)
        self._fetches.pop(fetch, None)
        self._stable_fetches.pop(fetch, None)

    def wake_fetches(self) -> None:
        """Let everybody who waits for bytes read again and answer."""
        for fetch in (*self._fetches, *self._stable_fetches, *self._follower_fetches):
            fetch.wake()


def _cut_meanwhile() -> KafkaError:
    """A follower had to throw away part of its log while somebody read there: what was read may be
    neither the old nor the new, and says nothing of damage."""
    return KafkaError(
        ErrorCode.not_leader_or_follower, "The log was cut back to its leader's meanwhile."
    )


def _nobody_mends(_partition: Committing, _what: str) -> bool:
    """There are no other replicas."""
    return False
