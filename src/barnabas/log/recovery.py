"""Opening a log that was left behind: by a clean stop, a kill, or a power cut.

After a clean stop everything is believed. Otherwise every batch at or above the recovery point is
checked, the first that is not whole and sound ends the log (it was never synced, so no promise
covers it), and indexes and producer state are built anew. Damage below the recovery point is no
torn tail: nothing is cut there, and structural damage keeps that one log offline. A kill leaves
one batch too short at the very end; anything else that has to be cut after one is damage, too.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError
from barnabas.log.cleaner.swap import finish_swaps
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.log import PartitionLog
from barnabas.log.reading import batches
from barnabas.log.replay import aborted_in, replay
from barnabas.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas.log.snapshots import remove_stray_snapshots, restored_producers
from barnabas.log.torn import is_torn
from barnabas.log.truncation import restart_at
from barnabas.log.txn_index import TransactionIndexWriter
from barnabas.model.errors import DecodeError
from barnabas.model.stops import Stop
from barnabas.model.topics import TopicPartition
from barnabas.ports.files import Files
from barnabas.wire.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    parse_header,
    problem_of,
)

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 4 * 1024 * 1024


class DamagedLogError(Exception):
    """Bytes that had been synced are damaged in a way that can not be stepped over."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Which log, where, and what the checkpoints say about it."""

    files: Files
    directory: str
    partition: TopicPartition
    config: TopicConfig
    recovery_point: int = 0
    start_offset: int = 0
    stop: Stop = Stop.LOSSY
    knows_start: bool = False
    """Whether the log began at `start_offset` when it was last closed, and not just once."""


class Checked(NamedTuple):
    """One step of a scan: a batch, and what is wrong with it if anything."""

    position: int
    header: BatchHeader | None
    problem: str | None


def scan(segment: Segment) -> Iterator[Checked]:
    """Every batch of a segment with its verdict; ends after one that can not be stepped over."""
    position = 0
    while position < segment.size:
        chunk = segment.file.pread(min(_CHUNK_BYTES, segment.size - position), position)
        at = 0
        while at < len(chunk):
            left = segment.size - position - at
            if left < HEADER_BYTES:
                yield Checked(position + at, None, "cut short")
                return
            if len(chunk) - at < HEADER_BYTES:
                break
            header = parse_header(chunk, at)
            if header.size < HEADER_BYTES or header.size > left:
                yield Checked(position + at, None, f"a batch length of {header.length}")
                return
            if header.size > len(chunk) - at:
                if at > 0:
                    break
                chunk = segment.file.pread(header.size, position)
            yield Checked(position + at, header, problem_of(chunk, at, header))
            at += header.size
        position += at


def load_log(place: LogPlace, now_ms: int) -> PartitionLog:
    """Open the log that lies at `place`, mending what an unclean stop left."""
    finish_swaps(place.files, place.directory)
    segments = _find_segments(place, now_ms)
    log = PartitionLog(place.files, place.directory, place.partition, place.config, segments)
    epochs = _load_epochs(place)
    log.epochs = epochs or LeaderEpochs()
    indexed = all(segment.has_index_files() for segment in segments)
    if place.stop is Stop.CLEAN and indexed and _trust(log, now_ms):
        log.saved = log.directory_synced = True
        _load_transaction_indexes(log, place, len(segments), now_ms)
    else:
        _recover(log, place, now_ms)
    if epochs is None:
        log.epochs = _epochs_in(log)
    log.epochs.truncate_end(log.end_offset)
    _apply_start_offset(log, place, now_ms)
    log.damage = log.damage or _known_damage(place) or _lost_end(log, place)
    remove_stray_snapshots(place.files, place.directory, log.segments)
    return log


def _known_damage(place: LogPlace) -> str | None:
    """What was noticed in an earlier life."""
    path = f"{place.directory}/{names.DAMAGE}"
    return place.files.read(path).decode(errors="replace") if place.files.exists(path) else None


def _lost_end(log: PartitionLog, place: LogPlace) -> str | None:
    """After a clean stop a log begins where that was noted; unless power was lost, it ends where it
    was synced, or later. (Otherwise it may have been cut and the note of that be lost.)"""
    begins, ends = log.segments[0].base_offset, log.end_offset
    if place.stop is Stop.CLEAN and place.knows_start and begins > place.start_offset:
        return f"it begins at offset {begins}, and had begun at {place.start_offset}"
    if place.stop is not Stop.LOSSY and ends < place.recovery_point:
        return f"it ends at offset {ends}, and had been synced up to {place.recovery_point}"
    return None


def _find_segments(place: LogPlace, now_ms: int) -> list[Segment]:
    """The segments on disk, oldest first, without what lies wholly below the log's start."""
    files, directory = place.files, place.directory
    found = (names.offset_of(name, names.LOG) for name in files.list(directory))
    bases = sorted(base for base in found if base is not None)
    segments = [Segment.existing(files, directory, base, now_ms) for base in bases]
    while len(segments) > 1 and segments[1].base_offset <= place.start_offset:
        segments.pop(0).remove_files()
    if not segments:
        segments = [Segment.create(files, directory, place.start_offset, now_ms)]
    return segments


def _load_epochs(place: LogPlace) -> LeaderEpochs | None:
    """What the file says; None when it is not there, or damaged."""
    path = f"{place.directory}/{names.EPOCHS}"
    if not place.files.exists(path):
        return None
    try:
        return LeaderEpochs.from_bytes(place.files.read(path))
    except CheckpointError as error:
        logger.warning("%s is built anew: it holds %s", path, error)
        return None


def _epochs_in(log: PartitionLog) -> LeaderEpochs:
    """What the batches say: without epochs nobody could tell where two logs part."""
    epochs = LeaderEpochs()
    for segment in log.segments:
        for _, header in batches(segment, 0, segment.size):
            epochs.assign(header.leader_epoch, header.base_offset)
    return epochs


def _trust(log: PartitionLog, now_ms: int) -> bool:
    """After a clean stop: only what lies behind the last index entry is read.

    False when that does not lead to the end of the file: then the trust was misplaced.
    """
    active = log.segments[-1]
    active.load_time_bounds()
    active.resume_indexing()
    first = next(batches(active, 0, active.size), None)
    if first is not None:
        active.first_timestamp = first[1].max_timestamp
    last_entry = active.offset_index.last()
    start = reached = last_entry[1] if last_entry else 0
    for position, header in batches(active, start, active.size):
        reached = position + header.size
        log.end_offset = header.last_offset + 1
        if position > start or last_entry is None:
            active.note(header, header.last_offset, position, log.config.index_interval_bytes)
        log.epochs.assign(header.leader_epoch, header.base_offset)
    if reached != active.size or reached == start > 0:
        return False
    log.recovery_point = log.end_offset
    log.restore_producers(log.end_offset, now_ms)
    return True


def _recover(log: PartitionLog, place: LogPlace, now_ms: int) -> None:
    """After any other stop: check what lies at or above the recovery point."""
    first = _first_unproven(log.segments, place.recovery_point)
    log.end_offset = log.segments[first].base_offset
    log.restore_producers(log.end_offset, now_ms)
    for slot in range(first, len(log.segments)):
        segment = log.segments[slot]
        if segment.base_offset < log.end_offset:
            raise DamagedLogError(f"{segment.path(names.LOG)} overlaps the segment before it")
        if segment.base_offset > max(log.end_offset, place.recovery_point):
            # The tail of the segment before is gone as a whole: there was no bad batch to see.
            # (Below the recovery point a gap is compaction's.)
            _remove_segments(log, slot)
            _more_than_a_kill(log, place)
            break
        log.end_offset = segment.base_offset
        segment.name_synced = False
        if slot > 0 and not place.files.exists(segment.path(names.SNAPSHOT)):
            # Retention may take all that lies before: what that told of producers is kept here.
            log.write_snapshot()
        cut = _recover_segment(log, segment, place, now_ms)
        if slot < len(log.segments) - 1 or cut:
            segment.write_indexes()
        if cut:
            if slot < len(log.segments) - 1:
                _more_than_a_kill(log, place)
            _remove_segments(log, slot + 1)
            break
        if slot < len(log.segments) - 1:
            segment.drop_indexes()
    _load_transaction_indexes(log, place, first, now_ms)
    for slot, segment in enumerate(log.segments[:first]):
        # A segment that ends at the recovery point may have been rolled after that was written
        # down: then its indexes were never synced.
        ends_there = log.segments[slot + 1].base_offset >= place.recovery_point
        if ends_there or not segment.has_index_files():
            _rebuild_indexes(segment, log.config.index_interval_bytes)
            _rebuild_transaction_index(log, place, slot, now_ms)
    log.recovery_point = min(place.recovery_point, log.end_offset)
    if log.recovery_point < log.end_offset:
        log.mark_unsynced(now_ms)


def _first_unproven(segments: list[Segment], recovery_point: int) -> int:
    """The segment in which the recovery point lies."""
    slot = len(segments) - 1
    while slot > 0 and segments[slot].base_offset > recovery_point:
        slot -= 1
    return slot


def _recover_segment(log: PartitionLog, segment: Segment, place: LogPlace, now_ms: int) -> bool:
    """Check one segment and build its indexes; True when its tail was cut off."""
    path = segment.path(names.TRANSACTION_INDEX)
    aborted = TransactionIndexWriter(place.files, path, segment.base_offset)
    cut = _recover_batches(log, segment, place, now_ms, aborted)
    log.aborted.put(aborted.finish())
    return cut


def _recover_batches(
    log: PartitionLog,
    segment: Segment,
    place: LogPlace,
    now_ms: int,
    transactions: TransactionIndexWriter,
) -> bool:
    segment.reset_indexes()
    interval = log.config.index_interval_bytes
    for position, header, damage in scan(segment):
        problem = damage or _misplaced(log, segment, header)
        if problem is not None and log.end_offset >= place.recovery_point:
            if place.stop is Stop.KILLED and not is_torn(segment, position, log.end_offset):
                _more_than_a_kill(log, place)
            _cut(segment, position, problem)
            return True
        if header is None or (problem and not _can_be_stepped_over(log, segment, header)):
            raise DamagedLogError(
                f"{segment.path(names.LOG)} is damaged at byte {position} (offset "
                f"{log.end_offset}, which had been synced): {problem}. Nothing was changed; "
                "restore the file, or delete the topic."
            )
        if problem is not None:
            logger.error(
                "%s: the batch at offset %d is damaged (%s) and will not be served",
                segment.path(names.LOG), header.base_offset, problem,
            )  # fmt: skip
            log.damage = f"the batch at offset {header.base_offset} is damaged ({problem})"
        segment.note(header, header.last_offset, position, interval)
        log.end_offset = header.last_offset + 1
        if problem is None:
            log.epochs.found(header.leader_epoch, header.base_offset, header.last_offset)
        aborted = replay(log.producers, segment, position, header, now_ms)
        if aborted is not None:
            transactions.add(aborted)
    return False


def _can_be_stepped_over(log: PartitionLog, segment: Segment, header: BatchHeader) -> bool:
    """Whether a batch with a bad checksum still says where it begins and ends."""
    last_offset = header.base_offset + header.last_offset_delta
    return (
        header.base_offset == log.end_offset
        and header.last_offset_delta >= 0
        and last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
    )


def _misplaced(log: PartitionLog, segment: Segment, header: BatchHeader | None) -> str | None:
    """Base offset and epoch lie outside the checksum: a torn write can leave them wrong."""
    if header is None:
        return None
    if header.base_offset < log.end_offset:
        return f"offset {header.base_offset} where {log.end_offset} was next"
    if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return f"offset {header.last_offset} in segment {segment.base_offset}"
    return None


def _more_than_a_kill(log: PartitionLog, place: LogPlace) -> None:
    """More is cut than a batch that was being written. Others may count on what is gone."""
    if place.stop is Stop.KILLED:
        log.damage = f"it was cut at offset {log.end_offset}, which no kill explains"


def _cut(segment: Segment, position: int, problem: str) -> None:
    logger.warning(
        "%s: cut from %d to %d bytes; the batch there was not completely written (%s)",
        segment.path(names.LOG), segment.size, position, problem,
    )  # fmt: skip
    segment.truncate(position)
    # Otherwise power loss could undo the cut, and old batches turn up behind new ones.
    segment.file.sync()


def _remove_segments(log: PartitionLog, slot: int) -> None:
    """What follows a cut can not be joined to the log, and must not come back either."""
    doomed = log.segments[slot:]
    for segment in doomed:
        logger.warning("%s: removed, since the log ends before it", segment.path(names.LOG))
        segment.close()
        segment.remove_files()
    log.keep_segments(slot)
    log.sync_names()


def _rebuild_indexes(segment: Segment, interval: int) -> None:
    segment.reset_indexes()
    for position, header in batches(segment, 0, segment.size):
        segment.note(header, header.last_offset, position, interval)
    segment.write_indexes()
    segment.drop_indexes()
    segment.name_synced = False


def _load_transaction_indexes(log: PartitionLog, place: LogPlace, count: int, now_ms: int) -> None:
    """Those of the oldest `count` segments; and whatever lies there without a segment goes."""
    spans = log.spans()
    bases = {segment.base_offset for segment, _ in spans}
    found = set()
    for name in place.files.list(place.directory):
        base = names.offset_of(name, names.TRANSACTION_INDEX)
        if base in bases:
            found.add(base)
        elif base is not None:
            place.files.remove(f"{place.directory}/{name}")
    for slot, (segment, end) in enumerate(spans[:count]):
        if segment.base_offset not in found:
            continue
        try:
            log.aborted.load(segment.base_offset, end)
        except DecodeError as error:
            path = segment.path(names.TRANSACTION_INDEX)
            logger.warning("%s is built anew: it holds %s", path, error)
            _rebuild_transaction_index(log, place, slot, now_ms)


def _rebuild_transaction_index(log: PartitionLog, place: LogPlace, slot: int, now_ms: int) -> None:
    """From the batches of a segment, and what was open when it began."""
    segment = log.segments[slot]
    states = restored_producers(
        place.files, place.directory, log.spans(), segment.base_offset, now_ms
    )
    log.aborted.rebuild(segment.base_offset, aborted_in(states, segment, now_ms))
    segment.name_synced = False


def _apply_start_offset(log: PartitionLog, place: LogPlace, now_ms: int) -> None:
    start = max(place.start_offset, log.segments[0].base_offset)
    if start > log.end_offset:
        logger.warning(
            "%s: begins anew at offset %d; the records before it had been deleted",
            log.directory, start,
        )  # fmt: skip
        restart_at(log, place.files, start, now_ms)
    log.start_offset = start
    log.epochs.truncate_start(start)
