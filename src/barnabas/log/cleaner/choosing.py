"""Which log is cleaned next, and which part of it. Pure decisions, as Kafka takes them."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.log.cleaner.plan import CleanerLimits, CleanPlan, LastBatch, Source
from barnabas.log.log import PartitionLog
from barnabas.log.segment import Segment


@dataclass(slots=True, kw_only=True)
class Cleanable:
    """A log as the cleaner sees it."""

    log: PartitionLog
    first_dirty: int
    up_to: int
    """The base of the first segment that must not be touched."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """`max.compaction.lag.ms` has passed for some of it."""

    @property
    def ratio(self) -> float:
        """How much of what can be cleaned is dirty."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is worth it."""
        forced = self.overdue and self.dirty_bytes > 0
        return forced or self.ratio > self.log.config.min_cleanable_dirty_ratio


def filthiest(logs: Iterable[Cleanable]) -> Cleanable | None:
    """The log to clean next: the dirtiest of those that are due."""
    return max((each for each in logs if each.is_due), key=lambda each: each.ratio, default=None)


def first_dirty_offset(log: PartitionLog, cleaned_to: int | None) -> int:
    """Where cleaning begins. What is remembered may be of a log that began or ended elsewhere."""
    if cleaned_to is None or not log.start_offset <= cleaned_to <= log.end_offset:
        return log.start_offset
    return cleaned_to


def dirty_segments(log: PartitionLog, first_dirty: int) -> list[Segment]:
    """The closed segments from the one on that `first_dirty` lies in."""
    return log.segments[_slot(log.segments, first_dirty) : -1]


def cleanable(
    log: PartitionLog, cleaned_to: int | None, last_stable_offset: int, now_ms: int
) -> Cleanable:
    """What of a log could be cleaned now.

    Never the newest segment, nothing that is not decided, committed and synced, and nothing that
    is younger than `min.compaction.lag.ms`.
    """
    first_dirty = first_dirty_offset(log, cleaned_to)
    dirty = dirty_segments(log, first_dirty)
    bounds = [last_stable_offset, log.segments[-1].base_offset, log.proven_offset]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (each.base_offset for each in dirty if each.max_timestamp > now_ms - lag_ms)
        bounds += [next(young, bounds[0])]
    up_to = log.segments[_slot(log.segments, max(first_dirty, min(bounds)))].base_offset
    return Cleanable(
        log=log,
        first_dirty=first_dirty,
        up_to=up_to,
        clean_bytes=sum(s.size for s in log.segments if s.base_offset < first_dirty),
        dirty_bytes=sum(s.size for s in dirty if s.base_offset < up_to),
        overdue=_is_overdue(log, dirty, now_ms),
    )


def _is_overdue(log: PartitionLog, dirty: list[Segment], now_ms: int) -> bool:
    clean_until_ms = now_ms - log.config.max_compaction_lag_ms
    return any(0 < segment.first_timestamp < clean_until_ms for segment in dirty)


def _slot(segments: list[Segment], offset: int) -> int:
    return max(bisect_right(segments, offset, key=lambda each: each.base_offset) - 1, 0)


def plan_cleaning(
    target: Cleanable, limits: CleanerLimits, secret: bytes, now_ms: int
) -> CleanPlan:
    """Everything that cleaning `target` needs to know, as of now."""
    log, config = target.log, target.log.config
    sources = [
        Source(segment.base_offset, end_offset, segment.size)
        for segment, end_offset in log.spans()
        if segment.base_offset < target.up_to
    ]
    producers = {
        producer_id: LastBatch(
            producer.batches[-1].last_offset if producer.batches else -1, producer.epoch
        )
        for producer_id, producer in log.producers
    }
    return CleanPlan(
        directory=log.directory,
        sources=tuple(sources),
        first_dirty=target.first_dirty,
        up_to=target.up_to,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        producers=producers,
        aborted=log.aborted_search(log.segments[0].base_offset, target.up_to),
        secret=secret,
        limits=limits,
    )
