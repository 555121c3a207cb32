"""Cutting a log back: records, producers, epochs and indexes go together."""

import pytest
from tests.log.conftest import NOW_MS, append, batch, open_log, read_values

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.truncation import restart_at, truncate_to
from barnabas.world.memory import MemoryFiles

CONFIG = TopicConfig(segment_bytes=400, index_interval_bytes=1)


def filled(files: MemoryFiles) -> PartitionLog:
    """Twelve batches of two records, in epochs of three batches."""
    log = open_log(files, config=CONFIG)
    for number in range(12):
        first = 2 * number
        records = batch(b"%02d" % first, b"%02d" % (first + 1), producer=(5, 0, first))
        append(log, records, epoch=number // 3)
    return log


@pytest.mark.parametrize("offset", range(25))
def test_every_batch_that_reaches_an_offset_goes(files: MemoryFiles, offset: int) -> None:
    log = filled(files)
    read_values(log)
    truncate_to(log, offset, NOW_MS)
    end = offset - offset % 2
    assert log.end_offset == end
    assert read_values(log) == [(n, b"%02d" % n) for n in range(end)]
    assert log.epochs.entries == [(n, 6 * n) for n in range(4) if 6 * n < end]
    known = log.producers.get(5)
    assert (known.last_sequence if known else -1) == end - 1
    assert append(log, batch(b"new"), epoch=9) == end
    log.close(clean=False)
    again = open_log(files, config=CONFIG)
    assert read_values(again) == [*((n, b"%02d" % n) for n in range(end)), (end, b"new")]


def test_cutting_at_the_end_changes_nothing(files: MemoryFiles) -> None:
    log = filled(files)
    before = read_values(log)
    truncate_to(log, 24, NOW_MS)
    truncate_to(log, 99, NOW_MS)
    assert read_values(log) == before


def test_beginning_anew_leaves_nothing_of_the_old(files: MemoryFiles) -> None:
    log = filled(files)
    restart_at(log, files, 500, NOW_MS)
    assert (log.start_offset, log.end_offset, log.recovery_point, log.size) == (500, 500, 500, 0)
    assert len(log.producers) == 0
    assert files.list("data/events-0") == ["00000000000000000500.log"]
    assert append(log, batch(b"x")) == 500
