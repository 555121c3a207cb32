"""Taking back what was written: a log ends earlier than it did, or begins anew."""

from bisect import bisect_right

from barnabas.log.log import PartitionLog
from barnabas.log.reading import batches
from barnabas.log.segment import Segment
from barnabas.log.snapshots import remove_snapshots
from barnabas.ports.files import Files


def truncate_to(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Remove every batch that holds a record at or after `offset`, and what depends on it."""
    if offset >= log.end_offset:
        return
    slot = max(bisect_right(log.segments, offset, key=lambda each: each.base_offset) - 1, 0)
    # The newest first: should it be cut short, what is left has no hole.
    for segment in reversed(log.segments[slot + 1 :]):
        segment.close()
        segment.remove_files()
    log.keep_segments(slot + 1)
    segment = log.segments[slot]
    position = next(
        (at for at, header in batches(segment, 0, segment.size) if header.last_offset >= offset),
        segment.size,
    )
    segment.truncate(position)
    segment.file.sync()
    log.sync_names()
    _rescan(log, segment, now_ms)


def _rescan(log: PartitionLog, segment: Segment, now_ms: int) -> None:
    """Renew what is known of the newest segment and its producers from its batches."""
    segment.reset_indexes()
    end = segment.base_offset
    for position, header in batches(segment, 0, segment.size):
        segment.note(header, header.last_offset, position, log.config.index_interval_bytes)
        end = header.last_offset + 1
    log.cut_to(end)
    # It may have been rolled, and its files speak of what is gone.
    segment.write_indexes()
    log.aborted.truncate(segment.base_offset, log.end_offset)
    before = log.producers.transactions
    log.restore_producers(log.end_offset, now_ms)
    log.producers.transactions.keep_ended(before, log.end_offset)


def restart_at(log: PartitionLog, files: Files, offset: int, now_ms: int) -> None:
    """Throw everything away and begin anew at `offset`."""
    for segment in log.segments:
        segment.close()
        segment.remove_files()
    remove_snapshots(files, log.directory, lambda _: True)
    log.begin_anew(Segment.create(files, log.directory, offset, now_ms))
    log.epochs.truncate_end(offset)
    log.sync_names()
