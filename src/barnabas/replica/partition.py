"""One partition on this broker, which leads it or follows: its roles, and what is appended to it.

With a single replica a batch is committed as soon as it is appended; with `flush.messages=1`, as
soon as it is synced. With several it is committed when every member of the ISR has it, and the ISR
is large enough: `in_sync` knows that. A follower appends what its leader sends (`copying`).
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from barnabas.cluster.image import PartitionState
from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import Appended, PartitionLog
from barnabas.log.verification import VerificationGuard, Verifications
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.ports.work import Work
from barnabas.replica.in_sync import UNKNOWN, InSync
from barnabas.replica.lease import Lease
from barnabas.replica.syncing import Syncing, is_broken
from barnabas.replica.uncommitted import ENOUGH_TO_LOOK, Uncommitted
from barnabas.wire.records.batch import BatchHeader

_MARKER_BYTES: Final = 78
"""A batch of one record, of a key of four bytes and a value of six."""

_ALONE: Final = PartitionState(0, 0, (0,), (0,))


class Partition(Syncing):
    """One partition that this broker leads or follows. It begins as the leader of its only
    replica; `begin` and `assume` make it what the cluster wants it to be."""

    __slots__ = (
        "_alone",
        "_lease",
        "_told_committed",
        "_trimming",
        "_uncommitted",
        "_uncommitted_bytes",
        "deferred",
        "in_sync",
        "is_leader",
        "leader_epoch",
        "order",
        "progressed",
        "state",
    )

    def __init__(
        self,
        log: PartitionLog,
        leader_epoch: int,
        work: Work,
        disk_failed: Callable[[str], None],
        lease: Lease | None = None,
    ) -> None:
        super().__init__(log, work, disk_failed)
        self._lease = lease or Lease()
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self.state = _ALONE
        """As the cluster has decided last."""
        self.in_sync: InSync | None = None
        """Of a leader that has followers."""
        self.progressed: Callable[[Partition, int], None] = _nobody_cares
        """Called when a follower that is not in the ISR has fetched."""
        self._alone = True
        self.order = asyncio.Lock()
        """Held by an append that has to look into records off the loop."""
        self.deferred = 0
        """Appends that wait for `order`: while there are any, others queue behind them."""
        self._uncommitted = Uncommitted()
        self._uncommitted_bytes = 0
        self._told_committed = 0
        """What a follower was told to be committed, whether it has it or not."""
        self._trimming: asyncio.Future[None] | None = None
        """Of those who wait for followers to delete what was deleted here."""

    # --- leading and following -----------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this broker is the leader, and may act as one: where there are other replicas,
        they may have elected another once it is out of touch with the cluster's store."""
        return self.is_leader and (self._alone or self._lease.is_held)

    @property
    def serves_readers(self) -> bool:
        """Whether consumers may read here: at the leader, or at a follower that is in touch with
        the cluster (otherwise it would not hear who leads) and sound."""
        if self.is_leader:
            return self.leads
        return self._lease.is_held and self.log.damage is None

    def lease_lost(self) -> None:
        """Nothing is acknowledged any more. What was appended may be committed all the same."""
        if not self.is_leader:
            self.wake_fetches()
        elif not self._alone:
            reason = "This broker is out of touch with the cluster."
            self._turn_away(KafkaError(ErrorCode.not_leader_or_follower, reason))

    def lease_regained(self, now_s: float) -> None:
        """Followers were turned away, too: that they are behind is no fault of theirs."""
        if self.in_sync is not None:
            self.in_sync.be_patient(now_s)

    def begin(self, me: int, state: PartitionState, known_committed: int, now_s: float) -> None:
        """The log was just opened. `known_committed`: a high watermark that once was true."""
        self.state = state
        self.leader_epoch = state.leader_epoch
        self.is_leader = False
        if len(state.replicas) > 1 or state.leader != me:
            log = self.log
            self._set_back(min(max(known_committed, log.start_offset), log.end_offset))
            self._uncommitted.begin_at(log.end_offset)
        if state.leader == me:
            self._lead(me, state, now_s)

    def assume(self, me: int, state: PartitionState, now_s: float) -> bool:
        """Be what the cluster has decided; whether that changed who leads, or since when."""
        if state.leader_epoch < self.leader_epoch:
            return False  # On its way for longer than what is known already.
        before = self.is_leader, self.leader_epoch, self.state.leader
        self.state = state
        if state.leader != me:
            self._follow(state)
        elif not self._leads_as(state):
            self._lead(me, state, now_s)
        elif self.in_sync is not None and self.in_sync.is_news(state):
            self.in_sync.update(state, now_s)
            self.advance()
        self._tell_trimmed()
        return before != (self.is_leader, self.leader_epoch, state.leader)

    def _leads_as(self, state: PartitionState) -> bool:
        is_alone = len(state.replicas) == 1
        return (
            self.is_leader and state.leader_epoch == self.leader_epoch and is_alone == self._alone
        )

    def _lead(self, me: int, state: PartitionState, now_s: float) -> None:
        """Begin an epoch as leader: what is here is what there is."""
        self._change_role("This broker leads the partition in another epoch now.")
        self.is_leader, self.leader_epoch = True, state.leader_epoch
        self._alone = len(state.replicas) == 1
        end = self.log.end_offset
        if self.own_end < end:
            self.sync()
        if self._alone:
            self.in_sync = None
            self._uncommitted_bytes = ENOUGH_TO_LOOK if self.own_end < end else 0
            self._commit(max(self.high_watermark, self.own_end), ENOUGH_TO_LOOK)
            return
        # Also where nothing will be written: whoever asks how far this epoch reaches must be told
        # (KIP-279).
        self.log.epochs.assign(state.leader_epoch, end)
        self.in_sync = InSync(me, state, end, now_s)
        self.advance()

    def _follow(self, state: PartitionState) -> None:
        if self.is_leader:
            self._change_role("Another broker leads the partition now.")
        elif state.leader_epoch != self.leader_epoch:
            # Readers that named the epoch before have to look who leads now.
            self.wake_fetches()
        if self.is_leader or state.leader_epoch != self.leader_epoch:
            self._told_committed = 0
        self.is_leader, self.leader_epoch = False, state.leader_epoch
        self.in_sync = None

    def _change_role(self, reason: str) -> None:
        self._turn_away(KafkaError(ErrorCode.not_leader_or_follower, reason))
        self._uncommitted.begin_at(self.log.end_offset)
        # Whoever asked for them is turned away when the answer comes.
        self.log.producers.verifications = Verifications()

    def configure(self, config: TopicConfig) -> None:
        """The topic's settings from now on."""
        self.log.configure(config)
        if self.in_sync is not None:
            # It may take fewer replicas now, or more of the own log.
            if self.own_end < self.log.end_offset:
                self.sync()
            self.advance()

    # --- as leader -----------------------------------------------------------------------------

    def has_follower(self, broker: int) -> bool:
        """Whether that broker copies from this one."""
        return self.in_sync is not None and self.in_sync.follower(broker) is not None

    def record_fetch(
        self, broker: int, broker_epoch: int, offset: int, now_s: float, start_offset: int = UNKNOWN
    ) -> None:
        """A follower has everything from `start_offset` on below `offset`. NOT_LEADER_OR_FOLLOWER:
        it is none."""
        in_sync = self.in_sync
        if in_sync is None or in_sync.follower(broker) is None:
            raise KafkaError(
                ErrorCode.not_leader_or_follower, f"Broker {broker} does not follow this partition."
            )
        in_sync.fetched(broker, broker_epoch, offset, self.log.end_offset, now_s, start_offset)
        self._tell_trimmed()
        if broker not in in_sync.state.isr:
            self.progressed(self, broker)
        self.advance()

    def advance(self) -> None:
        """Commit what every member of the ISR has by now."""
        in_sync = self.in_sync
        if in_sync is None:
            return
        minimum = self.log.config.min_insync_replicas
        offset = in_sync.committed(self.own_end, self.high_watermark, minimum)
        if offset > self.high_watermark:
            size = self._uncommitted.commit(self.high_watermark, offset)
            self.log.note_committed(offset)
            self._commit(offset, size)
            for fetch in self._follower_fetches:
                fetch.hurry()

    @property
    def is_behind_its_epoch(self) -> bool:
        """Whether a new leader does not know yet how much of what it has is committed: readers
        were told more by the one before, and must not be told less."""
        return self.in_sync is not None and self.high_watermark < self.in_sync.epoch_start

    def _is_synced(self) -> None:
        if not self.is_leader:
            return
        if not self._alone:
            self.advance()
        elif self.log.recovery_point > self.high_watermark:
            size, self._uncommitted_bytes = self._uncommitted_bytes, 0
            self._commit(self.log.recovery_point, size)

    # --- deleting ------------------------------------------------------------------------------

    def delete_before(self, offset: int) -> None:
        """Records below `offset` are no more, here at once and at followers as soon as they hear
        of it."""
        self.log.advance_start(offset)
        for fetch in self._follower_fetches:
            fetch.hurry()

    def low_watermark(self, alive: Collection[int]) -> int:
        """Where the log begins that begins first, of this one and those of brokers in `alive`."""
        start = self.log.start_offset
        return start if self.in_sync is None else self.in_sync.low_watermark(start, alive)

    def trimmed(self) -> "asyncio.Future[None]":
        """Done when the low watermark may have moved, or this broker leads no more."""
        if self._trimming is None:
            self._trimming = asyncio.get_running_loop().create_future()
        return self._trimming

    def _tell_trimmed(self) -> None:
        told, self._trimming = self._trimming, None
        if told is not None and not told.done():
            told.set_result(None)

    def _turn_away(self, error: KafkaError) -> None:
        super()._turn_away(error)
        self._tell_trimmed()

    # --- as follower ---------------------------------------------------------------------------

    def learn_committed(self, offset: int) -> None:
        """A follower hears from its leader what is committed."""
        self._told_committed = offset
        offset = min(offset, self.log.end_offset)
        if offset > self.high_watermark:
            size = self._uncommitted.commit(self.high_watermark, offset)
            self.log.note_committed(offset)
            self._commit(offset, size)
            # Nobody may ever read here: what has ended must not pile up until this broker leads.
            self.log.producers.transactions.settle(offset)

    @property
    def offset_lag(self) -> int:
        """How far a follower is behind what is committed, as far as it was told."""
        return 0 if self.is_leader else max(self._told_committed - self.log.end_offset, 0)

    def copied(self, count: int, size: int) -> None:
        """A follower's log has got so many offsets and bytes more: `flush.messages` counts them
        here, too."""
        if count:
            self._uncommitted.add(self.log.end_offset, size)
        self._unsynced_count += count
        if self._unsynced_count >= self.log.config.flush_messages:
            self.sync()

    def truncated(self) -> None:
        """The log of a follower ends earlier than it did, or begins anew. OSError: that what was
        committed is not any more (which takes an unclean election) can not be written down."""
        log, before = self.log, self.high_watermark
        high_watermark = max(min(before, log.end_offset), log.start_offset)
        self._set_back(high_watermark)
        self._uncommitted.begin_at(log.end_offset)
        if high_watermark != before:
            log.note_committed(high_watermark)
        if high_watermark < before:
            log.rewrite_recovery_point()

    # --- appending -----------------------------------------------------------------------------

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

    def append(
        self,
        records: memoryview,
        header: BatchHeader,
        now_ms: int,
        guard: VerificationGuard | None = None,
        *,
        everywhere: bool = True,
    ) -> tuple[Appended, "asyncio.Future[None] | None"]:
        """Append a checked batch. The future, if any, is done when it may be acknowledged:
        `everywhere`, when it is committed; otherwise when the leader has it.

        INVALID_TXN_STATE: it would open a transaction, and no valid guard came with it.
        NOT_ENOUGH_REPLICAS: it could not be committed now.
        """
        if not self.leads:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        if everywhere and not self._alone:
            self._require_enough()
        try:
            appended = self.log.append(records, header, self.leader_epoch, now_ms, guard)
        except KafkaError as error:
            self.write_failed(error)
            raise
        if appended.repeated:
            return appended, self._promised(appended.last_offset + 1, everywhere=everywhere)
        if self._alone:
            return appended, self._acknowledged(appended, len(records), header.count)
        return appended, self._acknowledged_by_all(
            appended, len(records), header.count, everywhere=everywhere
        )

    def write_failed(self, error: KafkaError) -> None:
        """Something could not be written. A full disk may have room again; a broken one keeps
        this broker from being of any use, so that others had better lead."""
        cause = error.__cause__
        if len(self.state.replicas) > 1 and is_broken(cause):
            self.fail_disk(f"writing to {self.log.directory} failed: {cause}")

    def _require_enough(self) -> None:
        in_sync, minimum = self.in_sync, self.log.config.min_insync_replicas
        if in_sync is not None and not in_sync.has_enough(minimum):
            raise KafkaError(
                ErrorCode.not_enough_replicas,
                f"{len(in_sync.state.isr)} replica(s) are in sync, and min.insync.replicas asks "
                f"for {minimum}.",
            )

    def append_marker(
        self, marker: Marker, now_ms: int
    ) -> tuple[Appended, "asyncio.Future[None] | None"]:
        """Append the end of a transaction, as `append` does a batch. KafkaError:
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR, and what
        `append` raises of leaders."""
        if not self.leads:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        if not self._alone:
            self._require_enough()
        try:
            appended = self.log.append_marker(marker, self.leader_epoch, now_ms)
        except KafkaError as error:
            self.write_failed(error)
            raise
        acknowledged = (
            self._acknowledged(appended, _MARKER_BYTES, 1)
            if self._alone
            else self._acknowledged_by_all(appended, _MARKER_BYTES, 1, everywhere=True)
        )
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

    def _acknowledged_by_all(
        self, appended: Appended, size: int, count: int, *, everywhere: bool
    ) -> "asyncio.Future[None] | None":
        """The same where there are followers."""
        end = appended.last_offset + 1
        self._uncommitted.add(end, size)
        self._unsynced_count += count
        syncs = self._unsynced_count >= self.log.config.flush_messages
        if syncs:
            self.sync()
        self.advance()
        if self._follower_fetches:
            is_urgent = everywhere or self._is_waited_for
            for fetch in tuple(self._follower_fetches):
                if is_urgent:
                    fetch.arrived(size)
                else:
                    fetch.gather(size)
        if everywhere and end > self.high_watermark:
            return self._commits.park(end)
        return self._syncs.park(end) if syncs else None

    @property
    def _is_waited_for(self) -> bool:
        """Whether somebody waits for the next commit: a producer, or a reader."""
        return bool(self._commits or self._fetches or self._stable_fetches)

    def _promised(self, end: int, *, everywhere: bool) -> "asyncio.Future[None] | None":
        """What a repeated batch has to wait for: the same as the batch it repeats."""
        if end > self.high_watermark and (everywhere or self._alone):
            return self._commits.park(end)
        return self._syncs.park(end) if self._syncs.waits_for(end) else None


def _nobody_cares(_partition: Partition, _broker: int) -> None:
    """There are no followers."""
