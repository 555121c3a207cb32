"""One partition's log: an append-only run of segments, and what is known about it.

All methods are synchronous and belong to the loop. What may wait for a disk is handed out as a
plan or a job (`plan_read`, `sync_job`, `timestamp_search`) that touches files only.
"""

import logging
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.log.attention import nobody_looks
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.producers import ProducerStates
from barnabas.log.reading import ReadPlan, ReadResult
from barnabas.log.retention import expired_segments, is_past_retention
from barnabas.log.rewriting import rewrite
from barnabas.log.rolling import should_roll
from barnabas.log.saving import save
from barnabas.log.segment import Segment
from barnabas.log.snapshots import (
    encode_snapshot,
    remove_snapshots,
    restored_producers,
)
from barnabas.log.syncing import SyncJob, Unsynced
from barnabas.log.timestamps import TimestampSearch
from barnabas.log.transactions import ending_batch
from barnabas.log.txn_index import AbortedSearch, AbortedTransaction, AbortedTransactions
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

_HINTS_MAX: Final = 64
"""Readers whose next position is remembered; a reader that is forgotten pays one index look-up."""


class Appended(NamedTuple):
    """Where a batch went. `repeated`: it had been there already, and nothing was written."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    repeated: bool


class PartitionLog:
    """The log of one partition."""

    def __init__(
        self,
        files: Files,
        directory: str,
        partition: TopicPartition,
        config: TopicConfig,
        segments: list[Segment],
    ) -> None:
        require(bool(segments), "a log has at least one segment")
        self._files = files
        self.directory = directory
        self.partition = partition
        self.configure(config)
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]
        self._hints: dict[int, tuple[Segment, int]] = {}
        self.start_offset = segments[0].base_offset
        self.end_offset = self._active.base_offset
        self.recovery_point = self.end_offset
        """Everything below it is known to be on disk."""
        self.producers = ProducerStates()
        self.aborted = AbortedTransactions(files, directory)
        self.epochs = LeaderEpochs()
        self.failure: str | None = None
        """Why the log takes no more writes, once a disk has failed under it."""
        self._refuses = False
        self._tail_since_ms: int | None = None
        self.draw_attention = nobody_looks
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
        self._write(records, header, first, leader_epoch, now_ms)
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
        if should_roll(self._active, self.config, header, self.end_offset, now_ms):
            self.roll(now_ms)
        offset = self.end_offset
        stamp(records, 0, offset, leader_epoch)
        ended = self.producers.ending(marker.producer_id, offset, aborted=not marker.committed)
        if ended is not None and ended.aborted:
            aborted = AbortedTransaction.of(ended, self.producers.transactions.stable_after(ended))
            self._write_aborting(aborted, records, header, leader_epoch, now_ms)
        else:
            self._write(records, header, offset, leader_epoch, now_ms)
        self.producers.record_marker(header, marker.coordinator_epoch, offset, now_ms)
        self.producers.verifications.ended(marker)
        return Appended(offset, offset, append_time, False)

    def _write_aborting(
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
            self._write(records, header, self.end_offset, epoch, now_ms)
        except (OSError, KafkaError) as error:
            try:
                self.aborted.take_back(base)
            except OSError as second:
                self.fail(f"{error}; and its entry in the transaction index can not go: {second}")
            if isinstance(error, OSError):
                self._refuse(error)
            raise
        self.aborted.confirm(base, aborted)

    def _write(
        self, data: Buffer, header: BatchHeader, first: int, epoch: int, now_ms: int
    ) -> None:
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

    def roll(self, now_ms: int) -> None:
        """Close the newest segment and begin another at the end offset."""
        if self._active.size == 0:
            return
        closing = self._active
        try:
            closing.write_indexes()
            self.write_snapshot()
            fresh = Segment.create(self._files, self.directory, self.end_offset, now_ms)
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
        rewrite(self._files, path, encode_snapshot(self.producers), sync=sync)

    # --- reading -------------------------------------------------------------------------------

    def plan_read(
        self, offset: int, max_bytes: int, up_to: int, *, at_least_one: bool
    ) -> ReadPlan | None:
        """How to read from `offset` on, below `up_to`; None when nothing is there yet."""
        if not self.start_offset <= offset <= self.end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"Offset {offset} is not between {self.start_offset} and {self.end_offset}.",
            )
        if offset >= up_to:
            return None
        hint = self._hints.get(offset)
        # A hint to the end of a segment that was rolled before it grew any more leads nowhere.
        exact = hint is not None and hint[1] < hint[0].size
        if hint is not None and exact:
            segment, start = hint
        else:
            segment = self._segment_of(offset)
            start = segment.position_in_memory(offset)
        end = segment.size
        return ReadPlan(segment, start, end, offset, up_to, max_bytes, at_least_one, exact)

    def _segment_of(self, offset: int) -> Segment:
        slot = max(bisect_right(self._bases, offset) - 1, 0)
        return self.segments[slot]

    def remember(self, plan: ReadPlan, result: ReadResult) -> None:
        """A reader in sequence will ask for what follows: remember where that lies."""
        segment, position = plan.segment, result.next_position
        if position >= segment.size and segment is not self._active:
            return
        if len(self._hints) >= _HINTS_MAX:
            self._hints.pop(next(iter(self._hints)))
        self._hints[result.next_offset] = (segment, position)

    def next_readable(self, offset: int) -> int | None:
        """The base of the segment after the one that `offset` falls in (compaction leaves gaps)."""
        slot = bisect_right(self._bases, offset)
        return self._bases[slot] if slot < len(self._bases) else None

    def timestamp_search(self, up_to: int) -> TimestampSearch:
        """A search for offsets by time, among records below `up_to`."""
        return TimestampSearch(tuple(self.segments), self.start_offset, up_to)

    def aborted_search(self, first: int, up_to: int) -> AbortedSearch | None:
        """How to find the aborted transactions among the offsets from `first` on, below `up_to`.

        None: there are none.
        """
        if not self.aborted:
            return None
        return self.aborted.search(self._segment_of(first).base_offset, first, up_to)

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.segments)

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
            files=self._files,
            directory=self.directory,
            epochs=self.epochs.to_bytes() if self.epochs.changed else None,
            segments=dirty,
            active=self._active,
            new_directory=not self.directory_synced,
        )
        self.epochs.changed = False
        since_ms, self._tail_since_ms = self._tail_since_ms, None
        return unsynced.job(self.end_offset, since_ms)

    def _changed(self) -> None:
        self.saved = False
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
        self.recovery_point = max(self.recovery_point, min(job.target, self.end_offset))
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

    def remove_snapshots_below(self, offset: int) -> None:
        """With the files of dropped segments, and not before: power loss may bring those back."""
        if self._files.exists(self.directory):
            remove_snapshots(self._files, self.directory, lambda each: each < offset)

    def keep_segments(self, count: int) -> None:
        """Forget all but the oldest `count` segments (their files are the caller's business)."""
        del self.segments[count:]
        self._bases = [segment.base_offset for segment in self.segments]
        self._active = self.segments[-1]
        self._hints.clear()
        self.aborted.keep_only(self._bases)
        self._changed()

    def begin_anew(self, segment: Segment) -> None:
        """Forget every segment, and all that was known, for an empty one."""
        self.segments = [segment]
        self.keep_segments(1)
        self.start_offset = self.end_offset = self.recovery_point = segment.base_offset
        self.producers = ProducerStates()
        self.aborted.keep_only(())

    def spans(self) -> list[tuple[Segment, int]]:
        """Every segment with the offset that it ends before."""
        return [(segment, self._ends(segment)) for segment in self.segments]

    def restore_producers(self, up_to: int, now_ms: int) -> None:
        """Renew what is known of producers, as of offset `up_to`, from snapshots and batches."""
        # Those of a log's lost end say nothing true about it.
        remove_snapshots(self._files, self.directory, lambda offset: offset > up_to)
        spans = self.spans()
        self.producers = restored_producers(self._files, self.directory, spans, up_to, now_ms)

    def sync_names(self) -> None:
        """Make the names of this log's files, and its own, durable."""
        self._files.sync_dir(self.directory)
        self._files.sync_dir(self.directory.rpartition("/")[0])

    # --- ending --------------------------------------------------------------------------------

    def close(self, *, clean: bool) -> None:
        """Release the files. `clean`: first save what makes the next start fast."""
        if clean and self.failure is None:
            save(self, self._files)
        for segment in self.segments:
            segment.close()
