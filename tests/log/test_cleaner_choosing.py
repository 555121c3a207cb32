"""Which log is cleaned next, and how far."""

import pytest
from tests.log.cleaner_scenes import clean, compacting, put
from tests.log.conftest import NOW_MS, open_log, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log.cleaner.choosing import Cleanable, cleanable, filthiest, first_dirty_offset
from barnabas.log.log import PartitionLog
from barnabas.world.memory import MemoryFiles

HOUR_MS = 3_600_000


def five_segments(files: MemoryFiles, config: TopicConfig | None = None) -> PartitionLog:
    """Offsets 0, 2, 4, 6, 8 begin segments an hour apart; the last is being written."""
    log = open_log(files, config=config or compacting())
    for number in range(5):
        now_ms = NOW_MS + number * HOUR_MS
        log.roll(now_ms)
        put(log, (b"a", b"1"), (b"b", b"2"), now_ms=now_ms)
    while log.proven_offset < log.end_offset:
        sync(log)
    return log


def look(
    log: PartitionLog, *, cleaned_to: int | None = None, stable: int = 100, now_ms: int = NOW_MS
) -> Cleanable:
    return cleanable(log, cleaned_to, stable, now_ms)


def test_everything_but_the_newest_segment_is_dirty_at_first(files: MemoryFiles) -> None:
    log = five_segments(files)
    found = look(log)
    assert (found.first_dirty, found.up_to) == (0, 8)
    assert found.clean_bytes == 0
    assert found.dirty_bytes == sum(segment.size for segment in log.segments[:4])
    assert found.ratio == 1.0
    assert found.is_due


@pytest.mark.parametrize(
    ("stable", "up_to"), [(100, 8), (8, 8), (7, 6), (6, 6), (5, 4), (1, 0), (0, 0)]
)
def test_nothing_undecided_is_touched(files: MemoryFiles, stable: int, up_to: int) -> None:
    """Whole segments are cleaned, so the one with the last stable offset is left."""
    found = look(five_segments(files), stable=stable)
    assert found.up_to == up_to
    assert found.is_due == (up_to > 0)


def test_nothing_unsynced_is_touched(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting())
    for _ in range(3):
        put(log, (b"a", b"1"))
        log.roll(NOW_MS)
    assert not look(log).is_due
    sync(log)
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    assert look(log).up_to == 3


def test_young_records_stay_uncompacted(files: MemoryFiles) -> None:
    log = five_segments(files, compacting(min_compaction_lag_ms=2 * HOUR_MS))
    assert look(log, now_ms=NOW_MS + 4 * HOUR_MS).up_to == 4
    assert look(log, now_ms=NOW_MS + 4 * HOUR_MS + 1).up_to == 6
    assert look(log, now_ms=NOW_MS + 2 * HOUR_MS + 1).up_to == 2
    assert not look(log, now_ms=NOW_MS).is_due


@pytest.mark.parametrize(("cleaned_to", "ratio"), [(2, 0.75), (4, 0.5), (6, 0.25), (8, 0.0)])
def test_the_share_of_the_dirty_part_decides(
    files: MemoryFiles, cleaned_to: int, ratio: float
) -> None:
    found = look(
        five_segments(files, compacting(min_cleanable_dirty_ratio=0.5)), cleaned_to=cleaned_to
    )
    assert found.ratio == ratio
    assert found.is_due == (ratio > 0.5)


def test_old_records_are_compacted_however_few_they_are(files: MemoryFiles) -> None:
    config = compacting(min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=3 * HOUR_MS)
    log = five_segments(files, config)
    assert not look(log, cleaned_to=6, now_ms=NOW_MS + 6 * HOUR_MS).is_due
    assert look(log, cleaned_to=6, now_ms=NOW_MS + 6 * HOUR_MS + 2).is_due
    assert not look(log, cleaned_to=8, now_ms=NOW_MS + 100 * HOUR_MS).is_due


def test_a_segment_is_closed_in_time_to_be_compacted(files: MemoryFiles) -> None:
    config = compacting(max_compaction_lag_ms=HOUR_MS, segment_bytes=1 << 20)
    log = open_log(files, config=config)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), now_ms=NOW_MS + HOUR_MS)
    assert len(log.segments) == 1
    put(log, (b"a", b"3"), now_ms=NOW_MS + HOUR_MS + 1)
    assert len(log.segments) == 2


def test_what_is_remembered_must_fit_the_log(files: MemoryFiles) -> None:
    log = five_segments(files)
    assert first_dirty_offset(log, None) == 0
    assert first_dirty_offset(log, 10) == 10
    assert first_dirty_offset(log, 11) == 0
    log.advance_start(5)
    assert first_dirty_offset(log, 4) == 5
    assert first_dirty_offset(log, 6) == 6


def test_the_dirtiest_that_is_due_is_next(files: MemoryFiles) -> None:
    log = five_segments(files, compacting(min_cleanable_dirty_ratio=0.3))
    found = [look(log, cleaned_to=offset) for offset in (4, 2, 6, 8)]
    assert filthiest(found) is found[1]
    assert filthiest(found[2:]) is None
    assert filthiest([]) is None


def test_a_clean_log_is_not_due_and_what_comes_later_is(files: MemoryFiles) -> None:
    log = five_segments(files, compacting(min_cleanable_dirty_ratio=0.0))
    report = clean(files, log)
    assert report.end_offset == 10
    assert not look(log, cleaned_to=10).is_due
    put(log, (b"a", b"3"))
    log.roll(NOW_MS)
    sync(log)
    assert look(log, cleaned_to=10).is_due
