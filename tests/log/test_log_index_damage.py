"""Indexes are a cache: whatever becomes of their files, reads are right or say so."""

import random

import pytest
from tests.log.conftest import append, batch, flip, open_log, read_values

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.world.memory import MemoryFiles

CONFIG = TopicConfig(segment_bytes=3_000, index_interval_bytes=150)
BATCHES = 75
EXPECTED = [(n, b"%04d" % n) for n in range(3 * BATCHES)]


@pytest.fixture
def stopped(files: MemoryFiles) -> MemoryFiles:
    """A log of several segments after a clean stop, so that its indexes are believed."""
    log = open_log(files, config=CONFIG)
    for number in range(BATCHES):
        values = [b"%04d" % (3 * number + i) for i in range(3)]
        append(log, batch(*values, timestamp=1_000 + number))
    assert len(log.segments) > 2
    log.close(clean=True)
    return files


def index_files(files: MemoryFiles, suffix: str) -> list[str]:
    paths = [f"data/events-0/{name}" for name in files.list("data/events-0") if suffix in name]
    return [path for path in paths if files.size_of(path) > 24]


def damage(files: MemoryFiles, chance: random.Random, path: str) -> None:
    """What bad media, bugs and copying hands do to a file."""
    size = files.size_of(path)
    file = files.open(path)
    match chance.randrange(5):
        case 0:
            flip(files, path, chance.randrange(size), chance.randrange(8))
        case 1:
            file.truncate(chance.randrange(size))
        case 2:
            file.pwrite(chance.randbytes(chance.randrange(1, size)), 0)
        case 3:
            file.pwrite(bytes(chance.randrange(1, 64)), size - size % 12)
        case 4:
            start = chance.randrange(size)
            file.pwrite(chance.randbytes(8), start)


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_offset_index_never_gives_wrong_records(stopped: MemoryFiles, seed: int) -> None:
    chance = random.Random(seed)
    for path in index_files(stopped, names.OFFSET_INDEX):
        whole = stopped.read(path)
        for _ in range(20):
            stopped.replace(path, whole)
            damage(stopped, chance, path)
            log = open_log(stopped, clean=True, recovery_point=len(EXPECTED), config=CONFIG)
            for offset in chance.sample(range(len(EXPECTED)), 6):
                assert read_values(log, offset) == EXPECTED[offset:]
            log.close(clean=False)
        stopped.replace(path, whole)


def test_an_index_of_another_segment_never_gives_wrong_records(stopped: MemoryFiles) -> None:
    first, *others = index_files(stopped, names.OFFSET_INDEX)
    for other in others:
        stopped.replace(first, stopped.read(other))
        log = open_log(stopped, clean=True, recovery_point=len(EXPECTED), config=CONFIG)
        for offset in range(len(EXPECTED)):
            assert read_values(log, offset)[0] == EXPECTED[offset]
        log.close(clean=False)


def test_an_entry_to_the_end_of_a_segment_hides_none_of_its_records(stopped: MemoryFiles) -> None:
    path = index_files(stopped, names.OFFSET_INDEX)[0]
    size = stopped.size_of(path.replace(names.OFFSET_INDEX, names.LOG))
    stopped.replace(path, bytes(4) + size.to_bytes(4, "big"))
    log = open_log(stopped, clean=True, recovery_point=len(EXPECTED), config=CONFIG)
    assert read_values(log) == EXPECTED


def test_an_entry_to_the_end_of_the_log_does_not_empty_it(stopped: MemoryFiles) -> None:
    log = open_log(stopped, clean=True, config=CONFIG)
    active = log.segments[-1]
    entry = (1).to_bytes(4, "big") + active.size.to_bytes(4, "big")
    stopped.replace(active.path(names.OFFSET_INDEX), entry)
    again = open_log(stopped, clean=True, recovery_point=len(EXPECTED), config=CONFIG)
    assert (again.end_offset, read_values(again)) == (len(EXPECTED), EXPECTED)


def test_missing_indexes_are_built_anew(stopped: MemoryFiles) -> None:
    paths = index_files(stopped, "index")
    before = {path: stopped.read(path) for path in paths}
    for path in paths:
        stopped.remove(path)
    log = open_log(stopped, clean=True, recovery_point=0, config=CONFIG)
    assert read_values(log) == EXPECTED
    log.close(clean=True)
    assert {path: stopped.read(path) for path in paths} == before


def test_missing_indexes_below_the_recovery_point_are_built_anew_too(stopped: MemoryFiles) -> None:
    path = index_files(stopped, names.TIME_INDEX)[0]
    before = stopped.read(path)
    stopped.remove(path)
    log = open_log(stopped, recovery_point=len(EXPECTED), config=CONFIG)
    assert stopped.read(path) == before
    assert log.segments[0].max_timestamp > 1_000
