"""After an unclean stop: torn tails are cut, whole batches stay, everything else is built anew."""

import random

import pytest
from tests.log.conftest import LOG_FILE, NOW_MS, append, batch, flip, open_log, read_values, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.recovery import DamagedLogError
from barnabas.model.stops import Stop
from barnabas.wire.records.batch import walk
from barnabas.world.memory import MemoryFiles

SMALL = TopicConfig(segment_bytes=300, index_interval_bytes=1)
EPOCHS = "data/events-0/leader-epoch-checkpoint"


def written(files: MemoryFiles, batches: int, config: TopicConfig | None = None) -> PartitionLog:
    """A log that nobody closed."""
    log = open_log(files, config=config)
    for number in range(batches):
        append(log, batch(b"%d" % number, producer=(9, 0, number)), epoch=number // 3)
    return log


def content(files: MemoryFiles) -> dict[str, bytes]:
    return {name: files.read(f"data/events-0/{name}") for name in files.list("data/events-0")}


def restored(files: MemoryFiles, before: dict[str, bytes]) -> None:
    """Put everything back as it was."""
    for name in files.list("data/events-0"):
        files.remove(f"data/events-0/{name}")
    for name, data in before.items():
        files.replace(f"data/events-0/{name}", data)


def values(log: PartitionLog) -> list[bytes | None]:
    return [value for _, value in read_values(log)]


def test_a_kill_loses_nothing(files: MemoryFiles) -> None:
    before = read_values(written(files, 20, SMALL))
    log = open_log(files, config=SMALL)
    assert read_values(log) == before
    assert log.epochs.entries == [(n, 3 * n) for n in range(7)]
    assert append(log, batch(b"more")) == 20


@pytest.mark.parametrize("recovery_point", [0, 3, 4])
def test_a_tail_torn_at_any_byte_is_cut_to_the_last_whole_batch(
    files: MemoryFiles, recovery_point: int
) -> None:
    log = written(files, 5)
    last = log.segments[0].size - len(batch(b"4"))
    whole = content(files)
    for size in range(last, log.segments[0].size):
        restored(files, whole)
        files.open(LOG_FILE).truncate(size)
        again = open_log(files, recovery_point=recovery_point)
        assert values(again) == [b"0", b"1", b"2", b"3"]
        assert files.size_of(LOG_FILE) == last
        assert append(again, batch(b"new")) == 4
        assert values(again)[-1] == b"new"


def test_a_tail_torn_at_any_byte_is_also_cut_where_the_disk_left_zeros(files: MemoryFiles) -> None:
    log = written(files, 5)
    end = log.segments[0].size
    last = end - len(batch(b"4"))
    whole = content(files)
    for size in range(last, end):
        for length in (end, end + 4096):
            restored(files, whole)
            file = files.open(LOG_FILE)
            file.truncate(size)
            file.truncate(length)
            kept = values(open_log(files))
            # What was cut may have been zeros itself: then nothing is missing.
            assert kept in ([b"0", b"1", b"2", b"3"], [b"0", b"1", b"2", b"3", b"4"])
            assert len(kept) == 4 or whole["00000000000000000000.log"][size:].strip(b"\0") == b""


@pytest.mark.parametrize("seed", range(30))
def test_garbage_behind_the_last_batch_is_cut(files: MemoryFiles, seed: int) -> None:
    chance = random.Random(seed)
    log = written(files, 5)
    end = log.segments[0].size
    files.open(LOG_FILE).pwrite(chance.randbytes(chance.randrange(1, 9_000)), end)
    assert values(open_log(files, recovery_point=5)) == [b"0", b"1", b"2", b"3", b"4"]
    assert files.size_of(LOG_FILE) == end


@pytest.mark.parametrize("bit", range(8))
def test_a_changed_bit_in_the_unsynced_tail_ends_the_log_there(
    files: MemoryFiles, bit: int
) -> None:
    log = written(files, 5)
    size = len(batch(b"4"))
    start = log.segments[0].size - 2 * size
    whole = content(files)
    for byte in range(size):
        restored(files, whole)
        flip(files, LOG_FILE, start + byte, bit)
        kept = values(open_log(files, recovery_point=3))
        # Of what the checksum does not cover, the epoch can change without harm to the data,
        # and a greater base offset looks like a gap that compaction left.
        assert kept == [b"0", b"1", b"2"] or byte < 16


def test_an_old_batch_behind_the_end_is_not_taken_for_a_new_one(files: MemoryFiles) -> None:
    log = written(files, 5)
    first = files.read(LOG_FILE)[: len(batch(b"0"))]
    files.open(LOG_FILE).pwrite(first, log.segments[0].size)
    assert values(open_log(files)) == [b"0", b"1", b"2", b"3", b"4"]


def test_segments_behind_a_torn_one_are_removed(files: MemoryFiles) -> None:
    log = written(files, 20, SMALL)
    torn = log.segments[2]
    files.open(torn.path(".log")).truncate(torn.size - 1)
    again = open_log(files, config=SMALL)
    assert again.end_offset == log.segments[3].base_offset - 1
    assert len(again.segments) == 3
    leftover = [name for name in files.list("data/events-0") if name.endswith(".log")]
    assert len(leftover) == 3
    assert [n for n, _ in read_values(again)] == list(range(again.end_offset))


def test_segments_behind_a_lost_one_are_removed(files: MemoryFiles) -> None:
    log = written(files, 20, SMALL)
    log.segments[2].remove_files()
    again = open_log(files, config=SMALL)
    assert again.end_offset == log.segments[2].base_offset
    assert append(again, batch(b"x")) == log.segments[2].base_offset


def test_indexes_and_snapshots_are_built_anew_as_they_were(files: MemoryFiles) -> None:
    log = written(files, 20, SMALL)
    log.close(clean=True)
    before = content(files)
    kept = {name: data for name, data in before.items() if name.endswith(".log")}
    restored(files, kept)
    again = open_log(files, config=SMALL)
    assert again.producers.get(9) == log.producers.get(9)
    again.close(clean=True)
    assert content(files) == before


@pytest.mark.parametrize("data", [b"", b"garbage", b"0\n9\n", bytes(100)])
def test_a_damaged_epoch_file_is_built_anew(files: MemoryFiles, data: bytes) -> None:
    log = written(files, 9)
    log.close(clean=True)
    files.replace(EPOCHS, data)
    assert open_log(files).epochs.entries == [(0, 0), (1, 3), (2, 6)]


def test_epochs_beyond_the_end_are_forgotten(files: MemoryFiles) -> None:
    log = written(files, 9)
    log.close(clean=True)
    files.open(LOG_FILE).truncate(7 * len(batch(b"0")) - 1)
    again = open_log(files)
    assert (again.end_offset, again.epochs.entries) == (6, [(0, 0), (1, 3)])


def test_every_damaged_snapshot_is_removed_and_made_up_for(files: MemoryFiles) -> None:
    log = written(files, 20, SMALL)
    log.close(clean=True)
    for name in files.list("data/events-0"):
        if name.endswith(".snapshot"):
            flip(files, f"data/events-0/{name}", 20)
    again = open_log(files, config=SMALL)
    assert again.producers.get(9) == log.producers.get(9)


def test_an_empty_log_is_recovered_too(files: MemoryFiles) -> None:
    open_log(files)
    assert open_log(files).end_offset == 0
    again = open_log(files, start_offset=40)
    assert (again.start_offset, again.end_offset) == (40, 40)
    assert append(again, batch(b"x")) == 40


def test_a_log_that_ends_before_its_start_begins_anew_there(files: MemoryFiles) -> None:
    written(files, 5)
    log = open_log(files, start_offset=50)
    assert (log.start_offset, log.end_offset, log.size) == (50, 50, 0)
    assert not files.exists(LOG_FILE)
    assert append(log, batch(b"x", producer=(9, 0, 77))) == 50
    assert log.epochs.entries == [(1, 50)]


def test_segments_wholly_below_the_start_are_removed(files: MemoryFiles) -> None:
    log = written(files, 20, SMALL)
    third = log.segments[2].base_offset
    again = open_log(files, start_offset=third + 1, config=SMALL)
    assert again.segments[0].base_offset == third
    assert again.start_offset == third + 1
    assert read_values(again)[0][0] == third + 1
    assert not files.exists(LOG_FILE)


def test_what_is_recovered_is_synced_with_its_names_before_it_counts_as_synced(
    files: MemoryFiles,
) -> None:
    written(files, 5)
    log = open_log(files, recovery_point=0)
    assert log.recovery_point == 0
    assert not any(segment.name_synced for segment in log.segments)
    assert sync(log) == 5
    assert log.sync_job() is None


def test_a_recovery_point_beyond_the_end_comes_back_to_it(files: MemoryFiles) -> None:
    written(files, 5)
    assert open_log(files, recovery_point=99).recovery_point == 5


def test_recovering_twice_is_recovering_once(files: MemoryFiles) -> None:
    log = written(files, 20, SMALL)
    files.open(log.segments[4].path(".log")).truncate(100)
    first = read_values(open_log(files, config=SMALL))
    before = content(files)
    assert read_values(open_log(files, config=SMALL)) == first
    assert content(files) == before


def test_overlapping_segments_are_damage(files: MemoryFiles) -> None:
    written(files, 5)
    files.replace("data/events-0/00000000000000000003.log", files.read(LOG_FILE))
    before = files.read(LOG_FILE)
    with pytest.raises(DamagedLogError, match="overlaps"):
        open_log(files)
    assert files.read(LOG_FILE) == before


def test_timestamps_for_rolling_and_retention_survive(files: MemoryFiles) -> None:
    log = open_log(files)
    for timestamp in (NOW_MS - 5, NOW_MS, NOW_MS - 9):
        append(log, batch(b"x", timestamp=timestamp))
    for clean in (False, True, True):
        log.close(clean=True)
        log = open_log(files, clean=clean)
        segment = log.segments[0]
        assert (segment.first_timestamp, segment.max_timestamp) == (NOW_MS - 5, NOW_MS)
        assert segment.max_timestamp_offset == 1


def test_what_a_kill_leaves_is_no_damage(files: MemoryFiles) -> None:
    log = written(files, 5)
    whole = content(files)
    for size in range(log.segments[0].size - len(batch(b"4")), log.segments[0].size + 1):
        restored(files, whole)
        files.open(LOG_FILE).truncate(size)
        assert open_log(files, stop=Stop.KILLED).damage is None


@pytest.mark.parametrize("stop", [Stop.KILLED, Stop.LOSSY])
def test_what_no_kill_explains_is_damage(files: MemoryFiles, stop: Stop) -> None:
    """A power loss may have taken anything that was not synced; a kill takes nothing."""
    log = written(files, 20, SMALL)
    whole = content(files)
    middle = log.segments[2]

    def found() -> bool:
        again = open_log(files, stop=stop, config=SMALL)
        assert again.end_offset < 20
        return again.damage is not None

    flip(files, f"data/events-0/{middle.base_offset:020}.log", 70)
    assert found() is (stop is Stop.KILLED)
    restored(files, whole)
    files.remove(f"data/events-0/{middle.base_offset:020}.log")
    assert found() is (stop is Stop.KILLED)
    restored(files, whole)
    files.open(f"data/events-0/{middle.base_offset:020}.log").truncate(middle.size - 1)
    assert found() is (stop is Stop.KILLED)


@pytest.mark.parametrize("torn", [0, 1, 30, 70])
def test_no_rotten_bit_passes_for_a_torn_batch(files: MemoryFiles, torn: int) -> None:
    """After a kill this replica counts as one that has everything. A length that was damaged makes
    the rest of the file look like the beginning of one batch."""
    log = written(files, 4)
    append(log, batch(b"4" * 40, producer=(9, 0, 4)), epoch=2)
    files.open(LOG_FILE).truncate(log.segments[0].size - torn)
    whole, sound = content(files), 5 if torn == 0 else 4
    batches = [position for position, _ in walk(files.read(LOG_FILE))]
    for position in [start + byte for start in batches for byte in range(61)]:
        for bit in range(8):
            restored(files, whole)
            flip(files, LOG_FILE, position, bit)
            again = open_log(files, stop=Stop.KILLED)
            assert again.end_offset >= sound or again.damage is not None, (position, bit)


def test_a_garbled_sector_is_no_torn_batch(files: MemoryFiles) -> None:
    written(files, 20)
    whole = content(files)
    for seed in range(50):
        restored(files, whole)
        files.open(LOG_FILE).pwrite(random.Random(seed).randbytes(512), 512)
        assert open_log(files, stop=Stop.KILLED).damage is not None, seed


def test_after_a_kill_what_was_synced_is_there(files: MemoryFiles) -> None:
    log = written(files, 20, SMALL)
    point = sync(log)
    newest = log.segments[-1]
    files.remove(f"data/events-0/{newest.base_offset:020}.log")
    again = open_log(files, stop=Stop.KILLED, config=SMALL, recovery_point=point)
    assert again.end_offset == newest.base_offset
    assert again.damage is not None
