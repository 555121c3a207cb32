"""Sync jobs: what they make durable, and what counts as synced afterwards."""

from tests.log.conftest import NOW_MS, append, batch, open_log, read_values, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log.truncation import truncate_to
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.world.memory import MemoryFiles


def disk(seed: int) -> SimFiles:
    files = SimFiles(seed, chances=Chances(cold=0))
    files.make_dirs("data/events-0")
    files.sync_dir("/")
    return files


def test_what_was_synced_survives_power_loss_and_the_rest_may() -> None:
    for seed in range(60):
        files = disk(seed)
        config = TopicConfig(segment_bytes=200)
        log = open_log(files, config=config)
        for number in range(7):
            append(log, batch(b"%d" % number, producer=(1, 0, number)), epoch=number // 4)
        assert sync(log) == 7
        for number in range(7, 12):
            append(log, batch(b"%d" % number, producer=(1, 0, number)), epoch=number // 4)
        again = open_log(files.crash(), recovery_point=7, config=config)
        found = read_values(again)
        assert 7 <= len(found) <= 12
        assert found == [(n, b"%d" % n) for n in range(len(found))]
        assert again.epochs.epoch_at(5) == 1
        known = again.producers.get(1)
        assert known is not None
        assert known.last_sequence == len(found) - 1


def test_a_whole_new_log_survives_with_its_folder() -> None:
    for seed in range(30):
        files = SimFiles(seed, chances=Chances(cold=0))
        files.make_dirs("data")
        files.sync_dir("/")
        files.make_dirs("data/events-0")
        log = open_log(files)
        append(log, batch(b"0"))
        sync(log)
        again = files.crash()
        assert read_values(open_log(again, recovery_point=1)) == [(0, b"0")]
        assert again.exists("data/events-0/leader-epoch-checkpoint")


def test_a_log_that_was_killed_and_recovered_survives_power_loss_once_synced() -> None:
    for seed in range(60):
        files = disk(seed)
        config = TopicConfig(segment_bytes=200)
        log = open_log(files, config=config)
        for number in range(2):
            append(log, batch(b"%d" % number))
        sync(log)
        append(log, batch(b"2"))
        files = files.kill()
        log = open_log(files, recovery_point=2, config=config)
        assert sync(log) == 3
        files = files.crash()
        again = open_log(files, recovery_point=3, config=config)
        assert [value for _, value in read_values(again)] == [b"0", b"1", b"2"]


def test_appends_during_a_sync_wait_for_the_next(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log, batch(b"0"))
    job = log.sync_job()
    assert job is not None
    append(log, batch(b"1"), now_ms=NOW_MS + 5)
    job.run()
    log.synced(job)
    assert (log.recovery_point, log.end_offset) == (1, 2)
    assert log.unsynced_since_ms == NOW_MS + 5
    assert sync(log) == 2
    assert log.unsynced_since_ms is None
    assert log.sync_job() is None


def test_a_job_never_counts_for_more_than_the_log_has_left(files: MemoryFiles) -> None:
    log = open_log(files)
    for number in range(3):
        append(log, batch(b"%d" % number))
    job = log.sync_job()
    assert job is not None
    truncate_to(log, 1, NOW_MS)
    log.synced(job)
    assert (log.recovery_point, log.end_offset) == (1, 1)


def test_a_rolled_segment_wants_to_be_synced(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log, batch(b"0"))
    assert not log.has_unsynced_roll
    log.roll(NOW_MS)
    assert log.has_unsynced_roll
    sync(log)
    assert not log.has_unsynced_roll


def test_a_segment_that_was_removed_while_its_sync_waited_needs_none(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(segment_bytes=200))
    append(log, batch(b"0"))
    sync(log)
    log.roll(NOW_MS)
    append(log, batch(b"1"))
    job = log.sync_job()
    assert job is not None
    gone = log.segments[:1]
    log.drop(gone)
    for segment in gone:
        segment.close()
        segment.remove_files()
    job.run()
    log.synced(job)
    assert log.recovery_point == 2
