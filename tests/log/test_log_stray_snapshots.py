"""Snapshots do not pile up: one for each segment, and one for the last clean stop."""

import pytest
from tests.log.conftest import NOW_MS, append, batch, open_log

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.snapshots import remove_stray_snapshots, snapshots_in
from barnabas.world.memory import MemoryFiles

CONFIG = TopicConfig(segment_bytes=1_000)


def offsets(files: MemoryFiles) -> list[int]:
    return [offset for offset, _ in reversed(snapshots_in(files, "data/events-0"))]


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments[1:]]


def restart(files: MemoryFiles, log: PartitionLog, how: str) -> PartitionLog:
    log.close(clean=how == "clean")
    return open_log(files, clean=how == "clean", config=CONFIG)


def test_ten_clean_stops_leave_one_snapshot_besides_those_of_segments(files: MemoryFiles) -> None:
    log = open_log(files, config=CONFIG)
    for number in range(40):
        append(log, batch(b"x", producer=(7, 0, number)))
        if number % 4 == 3:
            log = restart(files, log, "clean")
            assert offsets(files) == sorted({*bases(log), number + 1})
    assert len(log.segments) > 2
    assert append(log, batch(b"x", producer=(7, 0, 39))) == 39  # known to be a repeat


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_a_start_sweeps_what_older_stops_have_left(files: MemoryFiles, how: str) -> None:
    log = open_log(files, config=CONFIG)
    for number in range(20):
        append(log, batch(b"x", producer=(7, 0, number)))
        log.write_snapshot()
    assert len(offsets(files)) > 15
    log = restart(files, log, how)
    # After a kill a snapshot above the recovery point is not believed either.
    assert offsets(files) == [*bases(log), *([20] if how == "clean" else [])]
    producer = log.producers.get(7)
    assert producer is not None
    assert producer.last_sequence == 19


def test_snapshots_of_segments_that_wait_for_their_removal_stay(files: MemoryFiles) -> None:
    log = open_log(files, config=CONFIG)
    for number in range(30):
        append(log, batch(b"x", timestamp=NOW_MS, producer=(7, 0, number)))
    before = offsets(files)
    log.drop(log.segments[:2])
    remove_stray_snapshots(files, "data/events-0", log.segments)
    assert offsets(files) == before
    log.remove_snapshots_below(log.segments[0].base_offset)
    assert offsets(files) == [log.segments[0].base_offset, *bases(log)]
