"""A search by time finds the right record or says that it can not, whatever is damaged."""

import random
import struct

import pytest
from tests.log.conftest import append, batch, flip, open_log

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.log.log import PartitionLog
from barnabas.log.timestamps import TimedOffset
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.world.memory import MemoryFiles

CONFIG = TopicConfig(segment_bytes=3_000, index_interval_bytes=150)
RECORDS = 100


@pytest.fixture
def log(files: MemoryFiles) -> PartitionLog:
    """Record n is of the moment 10 n; after a clean start, so that index files are believed."""
    log = open_log(files, config=CONFIG)
    for number in range(RECORDS):
        append(log, batch(b"%04d" % number, timestamp=10 * number))
    log.close(clean=True)
    log = open_log(files, clean=True, config=CONFIG)
    assert len(log.segments) > 2
    return log


def found(log: PartitionLog, at: int) -> TimedOffset | None:
    return log.timestamp_search(RECORDS).first_at_or_after(at)


def first_index(log: PartitionLog, suffix: str) -> str:
    return log.segments[0].path(suffix)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("suffix", [names.OFFSET_INDEX, names.TIME_INDEX])
def test_damaged_indexes_hide_no_record(
    files: MemoryFiles, log: PartitionLog, seed: int, suffix: str
) -> None:
    chance = random.Random(seed)
    path = first_index(log, suffix)
    size = files.size_of(path)
    for _ in range(chance.randrange(1, 4)):
        if chance.random() < 0.5:
            flip(files, path, chance.randrange(size), chance.randrange(8))
        else:
            file = files.open(path)
            file.pwrite(chance.randbytes(8), chance.randrange(size - 8))
            file.close()
    for number in range(RECORDS):
        assert found(log, 10 * number - 5) == (number, 10 * number)
    assert log.timestamp_search(RECORDS).latest() == (RECORDS - 1, 10 * (RECORDS - 1))


def test_an_index_that_promises_too_much_hides_no_record(
    files: MemoryFiles, log: PartitionLog
) -> None:
    """It says that all records are older than they are."""
    entries = struct.iter_unpack(">qi", files.read(first_index(log, names.TIME_INDEX)))
    younger = b"".join(struct.pack(">qi", at // 2, offset) for at, offset in entries)
    files.replace(first_index(log, names.TIME_INDEX), younger)
    for number in range(RECORDS):
        assert found(log, 10 * number) == (number, 10 * number)


def test_a_sound_index_is_used(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = log.segments[0]
    last = log.segments[1].base_offset - 1
    read = []

    class Watched:
        def pread(self, length: int, position: int) -> bytes:
            read.append(position)
            return file.pread(length, position)

    file = segment.file
    monkeypatch.setattr(segment, "_file", Watched())
    assert found(log, 10 * last) == (last, 10 * last)
    assert min(read) > segment.size // 2


@pytest.mark.parametrize(
    ("byte", "bit"), [(8, 6), (10, 5), (11, 0), (16, 0), (23, 6)],
    ids=["huge", "too long", "odd", "magic", "last offset"],
)  # fmt: skip
def test_damage_on_the_way_is_told_of_instead_of_found_nothing(
    files: MemoryFiles, log: PartitionLog, byte: int, bit: int
) -> None:
    segment = log.segments[0]
    size = len(batch(b"0000"))
    flip(files, segment.path(names.LOG), size + byte, bit)
    files.replace(first_index(log, names.TIME_INDEX), b"")
    for at in (45, 10 * (log.segments[1].base_offset - 1)):
        with pytest.raises((KafkaError, DecodeError)) as error:
            found(log, at)
        if isinstance(error.value, KafkaError):
            assert error.value.code is ErrorCode.corrupt_message
    assert found(log, 0) == (0, 0)


def test_damage_is_no_reason_not_to_find_what_lies_behind_it(
    files: MemoryFiles, log: PartitionLog
) -> None:
    flip(files, log.segments[0].path(names.LOG), len(batch(b"0000")) + 8, 6)
    last = log.segments[1].base_offset - 1
    assert found(log, 10 * last) == (last, 10 * last)
    assert found(log, 10 * last + 1) == (last + 1, 10 * last + 10)


def test_the_latest_is_not_taken_from_before_the_damage(
    files: MemoryFiles, log: PartitionLog
) -> None:
    active = log.segments[-1]
    flip(files, active.path(names.LOG), len(batch(b"0000")) + 8, 6)
    with pytest.raises(KafkaError) as error:
        log.timestamp_search(RECORDS - 1).latest()
    assert error.value.code is ErrorCode.corrupt_message
