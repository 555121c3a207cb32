"""One partition's log: an append-only run of segments, and what is known about it.

All methods are synchronous and belong to the loop. What may wait for a disk is handed out as a
plan or a job (`plan_read`, `sync_job`, `timestamp_search`) that touches files only.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.log.attention import nobody_keeps_it, nobody_looks
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.producers import ProducerStates
from barnabas.log.retention import expired_segments, is_past_retention
from barnabas.log.rewriting import rewrite
from barnabas.log.rolling import should_roll
from barnabas.log.run import SegmentRun
from barnabas.log.saving import save
from barnabas.log.segment import Segment
from barnabas.log.snapshots import (
    encode_snapshot,
    remove_snapshots,
    restored_producers,
)
from barnabas.log.syncing import SyncJob, Unsynced
from barnabas.log.transactions import ending_batch
from barnabas.log.txn_index import AbortedTransaction
from barnabas.log.validation import check_batch, takes_batches_as_they_are
from barnabas.log.verification import VerificationGuard
from barnabas.model.check import require
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import Marker
from barnabas.ports.files import Buffer, Files
from barnabas.wire.records.batch import (
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER,
    BatchHeader,
    parse_header,
    stamp,
    stamp_append_time,
    stamp_create_time,
)

logger = logging.getLogger(__name__)

OFFSET_MAX: Final = 2**63 - 1


class Appended(NamedTuple):
    """Where a batch went. `repeated`: it had been there already, and nothing was written."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    repeated: bool


class PartitionLog(SegmentRun):
    """The log of one partition."""

    def __init__(
        self,
        files: Files,
        directory: str,
        partition: TopicPartition,
        config: TopicConfig,
        segments: list[Segment],
    ) -> None:
        super().__init__(files, directory, segments)
        self.partition = partition
        self.configure(config)
        self.recovery_point = self.end_offset
        """Everything below it is known to be on disk."""
        self.committed: int | None = None
        """A high watermark to be remembered, where that is not simply the end of the log."""
        self.producers = ProducerStates()
        self.epochs = LeaderEpochs()
        self.failure: str | None = None
        """Why the log takes no more writes, once a disk has failed under it."""
        self.damage: str | None = None
        """What is known to be damaged of what had been synced: not all of it can be served."""
        self.was_cleaned = False
        """Whether compaction has been here, which may leave holes between segments."""
        self._refuses = False
        self._tail_since_ms: int | None = None
        self._cut_to = OFFSET_MAX
        """The lowest end that the log had since a sync began: what lies behind it, that sync has
        not seen."""
        self.draw_attention = nobody_looks
        self.rewrite_recovery_point: Callable[[], None] = nobody_keeps_it
        """Called when it, or the high watermark, has fallen, before anything is written behind."""
        self.saved = False
        """Whether a clean start would find everything as it is now."""
        self.directory_synced = False
        """Whether the folder, and whose it is, would survive power loss."""

    def configure(self, config: TopicConfig) -> None:
        """The topic's settings from now on."""
        self.config = config
        self.takes_batches_as_they_are = takes_batches_as_they_are(config)

    # --- writing -------------------------------------------------------------------------------

    def check(self, records: memoryview, now_ms: int) -> BatchHeader:
        """The header of a client's batch, or the error the client must get."""
        return check_batch(records, self.config, now_ms)

    def append(
        self,
        records: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> Appended:
        """Store one checked batch at the end. `records` is stamped in place.

        `guard`: what a batch that opens a transaction was verified under.
        """
        self.require_healthy()
        append_time = -1
        size = header.length + LOG_OVERHEAD_BYTES
        if len(records) != size:
            records = records[:size]
        if header.producer_id > NO_PRODUCER:
            repeat = self.producers.check(header, guard)
            if repeat is not None:
                return Appended(repeat.first_offset, repeat.last_offset, repeat.timestamp, True)
        if self.config.message_timestamp_type == "LogAppendTime":
            append_time = now_ms
            header = stamp_append_time(records, 0, header, now_ms)
        elif header.attributes & LOG_APPEND_TIME:
            header = stamp_create_time(records, 0, header)
        if should_roll(self._active, self.config, header, self.end_offset, now_ms):
            self.roll(now_ms)
        first = self.end_offset
        stamp(records, 0, first, leader_epoch)
        self.write(records, header, first, leader_epoch, now_ms)
        if header.producer_id > NO_PRODUCER:
            self.producers.record(header, first, now_ms)
        return Appended(first, first + header.last_offset_delta, append_time, False)

    def append_marker(self, marker: Marker, leader_epoch: int, now_ms: int) -> Appended:
        """Store the end of a producer's transaction. KafkaError: it must not be, or can not be."""
        self.require_healthy()
        self.producers.check_marker(marker)
        records = memoryview(bytearray(ending_batch(marker, now_ms)))
        header = parse_header(records)
        append_time = -1
        if self.config.message_timestamp_type == "LogAppendTime":
            append_time = now_ms
            header = stamp_append_time(records, 0, header, now_ms)
        self.roll_if_due(header, self.end_offset, now_ms)
        offset = self.end_offset
        stamp(records, 0, offset, leader_epoch)
        ended = self.producers.ending(marker.producer_id, offset, aborted=not marker.committed)
        if ended is not None and ended.aborted:
            aborted = AbortedTransaction.of(ended, self.producers.transactions.stable_after(ended))
            self.write_aborting(aborted, records, header, leader_epoch, now_ms)
        else:
            self.write(records, header, offset, leader_epoch, now_ms)
        self.producers.record_marker(header, marker.coordinator_epoch, offset, now_ms)
        self.producers.verifications.ended(marker)
        return Appended(offset, offset, append_time, False)

    def write_aborting(
        self,
        aborted: AbortedTransaction,
        records: memoryview,
        header: BatchHeader,
        epoch: int,
        now_ms: int,
    ) -> None:
        """A marker and its entry in the transaction index: both, or none.

        The entry comes first. Were the marker there without it, readers would take what was
        aborted for committed; an entry without a marker is removed by recovery.
        """
        base = self._active.base_offset
        try:
            self.aborted.write(base, aborted)
            self.write(records, header, aborted.last_offset, epoch, now_ms)
        except (OSError, KafkaError) as error:
            try:
                self.aborted.take_back(base)
            except OSError as second:
                self.fail(f"{error}; and its entry in the transaction index can not go: {second}")
            if isinstance(error, OSError):
                self._refuse(error)
            raise
        self.aborted.confirm(base, aborted)

    def write(self, data: Buffer, header: BatchHeader, first: int, epoch: int, now_ms: int) -> None:
        """Put a batch whose offset and epoch are stamped into it at the end. The rest of what has
        to be remembered of it is the caller's."""
        segment = self._active
        try:
            segment.append(data, header, first, self.config.index_interval_bytes)
        except OSError as error:
            self._undo_partial_write(segment, error)
        if self._refuses:
            self._refuses = False
            logger.warning("%s takes writes again", self.partition.directory)
        self.end_offset = first + header.last_offset_delta + 1
        if self._tail_since_ms is None:
            self.mark_unsynced(now_ms)
        if header.max_timestamp < 0:
            segment.touched_ms = now_ms
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, first)

    def _undo_partial_write(self, segment: Segment, error: OSError) -> None:
        """A full disk refuses one batch and harms nothing else; whatever was written is cut off."""
        try:
            segment.file.truncate(segment.size)
        except OSError as second:
            self.fail(f"{error}; and cutting the partial write failed: {second}")
        self._refuse(error)

    def _refuse(self, error: OSError) -> NoReturn:
        self._tell_refusal(error)
        raise KafkaError(
            ErrorCode.kafka_storage_error, f"Writing to {self.partition.directory} failed: {error}"
        ) from error

    def _tell_refusal(self, error: OSError) -> None:
        """Once, not for every batch: clients try again and again."""
        if not self._refuses:
            self._refuses = True
            logger.error("%s refuses writes: %s", self.partition.directory, error)

    def require_healthy(self) -> None:
        """Raise KAFKA_STORAGE_ERROR when the disk has failed under this log."""
        if self.failure is not None:
            raise KafkaError(ErrorCode.kafka_storage_error, self.failure)

    def fail(self, reason: str) -> None:
        """Take no more writes until the log was recovered by a restart."""
        self.failure = f"{self.partition.directory} is offline until a restart: {reason}"

    def roll_if_due(self, header: BatchHeader, first: int, now_ms: int) -> None:
        """Begin another segment if the newest has no room, or no time, for a batch at `first`."""
        if should_roll(self._active, self.config, header, first, now_ms):
            self.roll(now_ms)

    def roll(self, now_ms: int) -> None:
        """Close the newest segment and begin another at the end offset."""
        if self._active.size == 0:
            return
        closing = self._active
        try:
            if len(self.segments) == 1 and not closing.name_synced:
                # Power loss may keep any name that is not synced, and lose another. Of a log that
                # has lost its first segment nobody could tell that it once began earlier.
                self.sync_names()
            closing.write_indexes()
            self.write_snapshot()
            fresh = Segment.create(self.files, self.directory, self.end_offset, now_ms)
        except OSError as error:
            self._tell_refusal(error)
            raise KafkaError(
                ErrorCode.kafka_storage_error,
                f"A new segment of {self.partition.directory} could not be made: {error}",
            ) from error
        self.segments.append(fresh)
        self._bases.append(fresh.base_offset)
        self._active = fresh
        # Its data may be synced already, its indexes are not.
        closing.name_synced = False
        closing.drop_indexes()
        self._changed()

    def write_snapshot(self, *, sync: bool = False) -> None:
        """Save what is known of producers as of the end offset."""
        path = f"{self.directory}/{names.file_name(self.end_offset, names.SNAPSHOT)}"
        rewrite(self.files, path, encode_snapshot(self.producers), sync=sync)

    # --- durability ----------------------------------------------------------------------------

    @property
    def unsynced_since_ms(self) -> int | None:
        """When the oldest unsynced batch was appended."""
        return self._tail_since_ms if self.recovery_point < self.end_offset else None

    @property
    def proven_offset(self) -> int:
        """Below it neither batches nor indexes need to be looked at after an unclean stop."""
        unsynced = (each.base_offset for each in self.segments if not each.name_synced)
        return min(self.recovery_point, *unsynced, self.end_offset)

    @property
    def has_unsynced_roll(self) -> bool:
        """Whether a segment that is written no more waits to be synced."""
        active = self._active
        return self.recovery_point < active.base_offset or (
            len(self.segments) > 1 and not active.name_synced
        )

    def sync_job(self) -> SyncJob | None:
        """What must be synced for everything written so far; None when all of it is."""
        if self.recovery_point >= self.end_offset and not self.has_unsynced_roll:
            return None
        point = self.recovery_point
        dirty = [s for s in self.segments if self._ends(s) > point or not s.name_synced]
        unsynced = Unsynced(
            files=self.files,
            directory=self.directory,
            epochs=self.epochs.to_bytes() if self.epochs.changed else None,
            segments=dirty,
            active=self._active,
            new_directory=not self.directory_synced,
        )
        self.epochs.changed = False
        self._cut_to = OFFSET_MAX
        since_ms, self._tail_since_ms = self._tail_since_ms, None
        return unsynced.job(self.end_offset, since_ms)

    def _changed(self) -> None:
        self.saved = False
        self.draw_attention(self.partition)

    def note_committed(self, offset: int) -> None:
        """The high watermark, for the next checkpoint."""
        self.committed = offset
        self.draw_attention(self.partition)

    def postpone(self, job: SyncJob) -> None:
        """A job could not begin: everything it was for is still to be done."""
        self.epochs.changed = True
        self.mark_unsynced(job.since_ms)

    def mark_unsynced(self, since_ms: int | None) -> None:
        """There is a tail, of that moment."""
        self._tail_since_ms = since_ms
        self._changed()

    def synced(self, job: SyncJob) -> None:
        """A job has finished: what it covered survives power loss."""
        self.directory_synced = True
        for segment in job.fresh:
            # One that was rolled meanwhile has got indexes that the job did not know of.
            segment.name_synced = segment is not job.active or segment is self._active
        synced = min(job.target, self._cut_to, self.end_offset)
        self.recovery_point = max(self.recovery_point, synced)
        self._changed()

    def _ends(self, segment: Segment) -> int:
        after = self.next_readable(segment.base_offset)
        return self.end_offset if after is None else after

    # --- shortening ----------------------------------------------------------------------------

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are no more to be seen; whole segments go later."""
        require(offset <= self.end_offset, "the start of a log lies within it")
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_start(offset)
            self._changed()

    def expired(self, now_ms: int, up_to: int) -> list[Segment]:
        """The oldest segments that retention lets go; `up_to` is the high watermark."""
        return expired_segments(
            self.segments,
            self.config,
            start_offset=self.start_offset,
            up_to=min(up_to, self.recovery_point),
            now_ms=now_ms,
        )

    def roll_if_expired(self, now_ms: int) -> None:
        """When even the newest segment is past retention, begin another so that it can go."""
        if is_past_retention(self._active, self.config, now_ms):
            self.roll(now_ms)

    def drop(self, segments: list[Segment]) -> None:
        """Forget the oldest `segments`; their files are the caller's to remove."""
        count = len(segments)
        require(segments == self.segments[:count], "only the oldest segments go")
        require(count < len(self.segments), "a log keeps one segment")
        self.segments = self.segments[count:]
        self._bases = self._bases[count:]
        self._hints.clear()
        self.aborted.keep_only(self._bases)
        self.advance_start(max(self.start_offset, self.segments[0].base_offset))

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """`new` stands for a run of closed segments from now on; their files are the caller's."""
        self.was_cleaned = True
        slot = self.segments.index(old[0])
        until = slot + len(old)
        require(self.segments[slot:until] == list(old), "what is replaced lies side by side")
        require(until < len(self.segments), "the newest segment is never replaced")
        self.segments = [*self.segments[:slot], new, *self.segments[until:]]
        self._bases = [segment.base_offset for segment in self.segments]
        self._hints.clear()
        for segment in old:
            self.aborted.forget(segment.base_offset)
        self.aborted.load(new.base_offset, self._ends(new))
        self._changed()

    @property
    def is_seamless(self) -> bool:
        """Whether each segment goes on where the one before it ended."""
        return not self.was_cleaned and not self.config.compacts

    def remove_snapshots_below(self, offset: int) -> None:
        """With the files of dropped segments, and not before: power loss may bring those back."""
        if self.files.exists(self.directory):
            remove_snapshots(self.files, self.directory, lambda each: each < offset)

    def keep_segments(self, count: int) -> None:
        """Forget all but the oldest `count` segments (their files are the caller's business)."""
        del self.segments[count:]
        self._bases = [segment.base_offset for segment in self.segments]
        self._active = self.segments[-1]
        self._hints.clear()
        self.aborted.keep_only(self._bases)
        self._changed()

    def cut_to(self, offset: int) -> None:
        """The log ends at `offset` now, earlier than it did: nothing behind that is synced, and
        nothing is known of it.

        Should the disk say that it is, a torn write there would be taken for damage.
        """
        point = self.recovery_point
        self.end_offset = offset
        self._cut_to = min(self._cut_to, offset)
        self.recovery_point = min(point, offset)
        self.start_offset = min(self.start_offset, offset)
        self.epochs.truncate_end(offset)
        if point > offset:
            self._changed()
            self.rewrite_recovery_point()

    def begin_anew(self, segment: Segment) -> None:
        """Forget every segment, and all that was known, for an empty one."""
        point = self.recovery_point
        self.segments = [segment]
        self.keep_segments(1)
        self.start_offset = self.end_offset = self.recovery_point = segment.base_offset
        self._cut_to = min(self._cut_to, segment.base_offset)
        self.producers = ProducerStates()
        self.aborted.keep_only(())
        if point > segment.base_offset:
            self.rewrite_recovery_point()

    def begin_segment_at(self, offset: int, now_ms: int) -> None:
        """Leave a gap, too wide for one segment: the next batch comes at `offset`."""
        self.roll(now_ms)
        try:
            fresh = Segment.create(self.files, self.directory, offset, now_ms)
            self._active.close()
            self._active.remove_files()
        except OSError as error:
            self._refuse(error)
        self.segments[-1] = fresh
        self.keep_segments(len(self.segments))

    def spans(self) -> list[tuple[Segment, int]]:
        """Every segment with the offset that it ends before."""
        return [(segment, self._ends(segment)) for segment in self.segments]

    def restore_producers(self, up_to: int, now_ms: int) -> None:
        """Renew what is known of producers, as of offset `up_to`, from snapshots and batches."""
        # Those of a log's lost end say nothing true about it.
        remove_snapshots(self.files, self.directory, lambda offset: offset > up_to)
        spans = self.spans()
        self.producers = restored_producers(self.files, self.directory, spans, up_to, now_ms)

    def sync_names(self) -> None:
        """Make the names of this log's files, and its own, durable."""
        self.files.sync_dir(self.directory)
        self.files.sync_dir(self.directory.rpartition("/")[0])

    # --- ending --------------------------------------------------------------------------------

    def close(self, *, clean: bool) -> None:
        """Release the files. `clean`: first save what makes the next start fast."""
        if clean and self.failure is None:
            save(self, self.files)
        for segment in self.segments:
            segment.close()
