"""What retention lets go, and what it never does."""

import pytest
from tests.log.conftest import NOW_MS, append, batch, open_log, read_values, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.world.memory import MemoryFiles

DAY_MS = 86_400_000
SIZE = len(batch(b"0"))


def filled(
    files: MemoryFiles,
    ages_days: list[int],
    *,
    retention_ms: int = -1,
    retention_bytes: int = -1,
    synced: bool = True,
) -> PartitionLog:
    """A segment for each age, the last of them the newest."""
    config = TopicConfig(
        segment_ms=2**63 - 1, retention_ms=retention_ms, retention_bytes=retention_bytes
    )
    log = open_log(files, config=config)
    for number, days in enumerate(ages_days):
        log.roll(NOW_MS)
        timestamp = NOW_MS - days * DAY_MS if days >= 0 else -1
        append(log, batch(b"%d" % number, timestamp=timestamp))
    if synced:
        sync(log)
    return log


def gone(log: PartitionLog, up_to: int | None = None, now_ms: int = NOW_MS) -> list[int]:
    """Base offsets of the segments retention would remove."""
    segments = log.expired(now_ms, log.end_offset if up_to is None else up_to)
    return [segment.base_offset for segment in segments]


def test_segments_go_when_their_newest_record_is_older_than_retention_ms(
    files: MemoryFiles,
) -> None:
    log = filled(files, [9, 8, 7, 6, 0], retention_ms=7 * DAY_MS)
    assert gone(log) == [0, 1]
    assert gone(log, now_ms=NOW_MS + 1) == [0, 1, 2]


def test_a_younger_record_in_front_keeps_those_behind_it(files: MemoryFiles) -> None:
    log = filled(files, [9, 0, 9, 9], retention_ms=7 * DAY_MS)
    assert gone(log) == [0]


def test_minus_one_keeps_everything(files: MemoryFiles) -> None:
    log = filled(files, [4000, 3000, 2000], retention_ms=-1, retention_bytes=-1)
    assert gone(log) == []


def test_zero_lets_go_of_all_but_the_newest_segment(files: MemoryFiles) -> None:
    log = filled(files, [3, 2, 1], retention_ms=0)
    assert gone(log) == [0, 1]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(0, 4), (SIZE, 4), (2 * SIZE, 3), (2 * SIZE - 1, 3), (2 * SIZE + 1, 2), (5 * SIZE, 0),
     (4 * SIZE + 1, 0), (4 * SIZE, 1)],
)  # fmt: skip
def test_segments_go_as_long_as_what_stays_is_not_below_retention_bytes(
    files: MemoryFiles, limit: int, expected: int
) -> None:
    log = filled(files, [0] * 5, retention_bytes=limit)
    assert len(gone(log)) == expected


def test_segments_wholly_below_the_log_start_go_whatever_the_settings(files: MemoryFiles) -> None:
    log = filled(files, [0] * 5, retention_ms=-1)
    log.config = TopicConfig(cleanup_policy=frozenset({"compact"}), retention_ms=-1)
    log.advance_start(2)
    assert gone(log) == [0, 1]


def test_a_compacted_topic_is_not_subject_to_time_or_size(files: MemoryFiles) -> None:
    log = filled(files, [400] * 5)
    log.config = TopicConfig(
        cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=1
    )
    assert gone(log) == []
    log.roll_if_expired(NOW_MS)
    assert len(log.segments) == 5


def test_nothing_at_or_above_the_high_watermark_goes(files: MemoryFiles) -> None:
    log = filled(files, [400] * 5, retention_ms=1)
    for high_watermark in range(5):
        assert gone(log, high_watermark) == list(range(high_watermark))


def test_nothing_goes_before_what_follows_it_is_synced(files: MemoryFiles) -> None:
    log = filled(files, [400] * 3, retention_ms=1, synced=False)
    assert gone(log) == []
    sync(log)
    append(log, batch(b"3", timestamp=1))
    log.roll(NOW_MS)
    append(log, batch(b"4", timestamp=1))
    assert gone(log) == [0], "the indexes of the segment that was just rolled are not synced"
    sync(log)
    assert gone(log) == [0, 1, 2]


def test_nor_before_the_snapshot_that_follows_it_is(files: MemoryFiles) -> None:
    log = filled(files, [400], retention_ms=1)
    log.roll(NOW_MS)
    assert log.recovery_point == log.end_offset == 1
    assert gone(log) == []
    assert log.has_unsynced_roll
    sync(log)
    assert gone(log) == [0]
    assert not log.has_unsynced_roll
    assert log.sync_job() is None


def test_an_expired_newest_segment_is_rolled_so_that_it_can_go(files: MemoryFiles) -> None:
    log = filled(files, [9, 8], retention_ms=7 * DAY_MS)
    log.roll_if_expired(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    sync(log)
    assert gone(log) == [0, 1]
    log.roll_if_expired(NOW_MS)
    assert len(log.segments) == 3


def test_a_newest_segment_within_retention_is_not_rolled(files: MemoryFiles) -> None:
    log = filled(files, [9, 7], retention_ms=7 * DAY_MS)
    log.roll_if_expired(NOW_MS)
    assert len(log.segments) == 2


def test_records_without_time_are_as_old_as_their_writing(files: MemoryFiles) -> None:
    log = filled(files, [-1, -1, -1], retention_ms=7 * DAY_MS)
    assert gone(log) == []
    log.roll_if_expired(NOW_MS + 7 * DAY_MS)
    assert len(log.segments) == 3
    append(log, batch(b"later", timestamp=-1), now_ms=NOW_MS + 3 * DAY_MS)
    after = NOW_MS + 7 * DAY_MS + 1
    log.roll_if_expired(after)
    assert len(log.segments) == 3
    assert gone(log, now_ms=after) == [0, 1]


def test_what_retention_took_can_not_be_read_and_the_rest_can(files: MemoryFiles) -> None:
    log = filled(files, [9, 8, 7, 6, 0], retention_ms=7 * DAY_MS)
    read_values(log)
    log.drop(log.expired(NOW_MS, log.end_offset))
    assert (log.start_offset, log.end_offset) == (2, 5)
    assert read_values(log) == [(2, b"2"), (3, b"3"), (4, b"4")]
    assert log.epochs.entries == [(0, 2)]


def test_the_log_start_does_not_go_back_when_segments_go(files: MemoryFiles) -> None:
    log = filled(files, [9, 8, 7, 6, 0], retention_ms=7 * DAY_MS)
    log.advance_start(4)
    log.drop(log.segments[:2])
    assert log.start_offset == 4
    log.advance_start(1)
    assert log.start_offset == 4


def test_snapshots_of_what_went_go_with_its_files(files: MemoryFiles) -> None:
    def snapshots() -> list[str]:
        return [name for name in files.list("data/events-0") if name.endswith(".snapshot")]

    log = filled(files, [9, 8, 7, 6, 0])
    log.drop(log.segments[:3])
    assert len(snapshots()) == 4
    log.remove_snapshots_below(3)
    assert snapshots() == ["00000000000000000003.snapshot", "00000000000000000004.snapshot"]
