"""Only the segment that grows has its indexes in memory; the others' are looked up in files."""

import pytest
from tests.log.conftest import append, batch, open_log, read_values, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.log.log import PartitionLog
from barnabas.log.segment import NOT_IN_MEMORY
from barnabas.log.truncation import truncate_to
from barnabas.world.memory import MemoryFile, MemoryFiles

CONFIG = TopicConfig(segment_bytes=2_000, index_interval_bytes=150)
EXPECTED = [(n, b"%04d" % n) for n in range(120)]


def written(files: MemoryFiles) -> PartitionLog:
    log = open_log(files, config=CONFIG)
    for number, value in EXPECTED:
        append(log, batch(value, timestamp=1_000 + number))
    assert len(log.segments) > 3
    return log


def in_memory(log: PartitionLog) -> list[bool]:
    positions = [each.position_in_memory(each.base_offset) for each in log.segments]
    return [position != NOT_IN_MEMORY for position in positions]


def only_the_newest(log: PartitionLog) -> list[bool]:
    return [False] * (len(log.segments) - 1) + [True]


def test_a_rolled_segment_lets_its_indexes_go_and_reads_bring_none_back(
    files: MemoryFiles,
) -> None:
    log = written(files)
    assert in_memory(log) == only_the_newest(log)
    for offset, _ in EXPECTED:
        assert read_values(log, offset) == EXPECTED[offset:]
        found = log.timestamp_search(len(EXPECTED)).first_at_or_after(1_000 + offset)
        assert found == (offset, 1_000 + offset)
    assert in_memory(log) == only_the_newest(log)


@pytest.mark.parametrize("how", ["clean", "killed", "synced and killed", "without indexes"])
def test_nor_does_a_start(files: MemoryFiles, how: str) -> None:
    log = written(files)
    point = sync(log) if how != "killed" else 0
    log.close(clean=how == "clean")
    if how == "without indexes":
        for segment in log.segments[:-1]:
            files.remove(segment.path(names.OFFSET_INDEX))
    log = open_log(files, clean=how == "clean", recovery_point=point, config=CONFIG)
    assert in_memory(log) == only_the_newest(log)
    assert read_values(log) == EXPECTED


def test_a_segment_that_grows_again_is_indexed_again(files: MemoryFiles) -> None:
    log = written(files)
    cut = log.segments[1].base_offset + 3
    truncate_to(log, cut, 0)
    for _, value in EXPECTED[cut:]:
        append(log, batch(value))
    assert read_values(log) == EXPECTED
    log.close(clean=True)
    assert read_values(open_log(files, clean=True, config=CONFIG)) == EXPECTED


def test_a_file_that_is_gone_costs_time_and_no_records(files: MemoryFiles) -> None:
    log = written(files)
    for segment in log.segments[:-1]:
        files.remove(segment.path(names.OFFSET_INDEX))
        files.remove(segment.path(names.TIME_INDEX))
    assert read_values(log, 7) == EXPECTED[7:]
    assert log.timestamp_search(len(EXPECTED)).first_at_or_after(1_007) == (7, 1_007)


def test_an_index_that_is_not_cached_is_left_to_another_thread(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(files)
    plan = log.plan_read(7, 100, len(EXPECTED), at_least_one=True)
    assert plan is not None
    at_once = plan.read_cached()
    assert at_once == plan.read()
    monkeypatch.setattr(MemoryFile, "pread_cached", lambda *_: None)
    assert plan.read_cached() is None
