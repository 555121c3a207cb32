"""A kill or a power cut at every single step of cleaning and swapping, and of mending that."""

from collections.abc import Callable

import pytest
from tests.log.cleaner_scenes import compacting, put, run_cleaning, stored, swap_in
from tests.log.conftest import NOW_MS, PLACE, open_log, sync
from tests.log.txn_log import end, read_committed

from barnabas.config.topic_config import TopicConfig
from barnabas.log.dump import StoredPartition
from barnabas.log.log import PartitionLog
from barnabas.log.verify import Tally, verify_partition
from barnabas.sim.faults import Chances, PowerLostError
from barnabas.sim.files import SimFiles
from barnabas.wire.records.record import Record

HOME = "data/events-0"
SMALL = compacting(segment_bytes=600, index_interval_bytes=50)
LARGE = compacting(segment_bytes=2_000, index_interval_bytes=50)
"""Several small segments make one large one."""

STEPS_MAX = 400


def open_here(files: SimFiles, config: TopicConfig, synced_to: int) -> PartitionLog:
    return open_log(files, config=config, recovery_point=synced_to)


def sync_all(log: PartitionLog) -> None:
    while log.proven_offset < log.end_offset:
        sync(log)


def dirty_log(seed: int) -> tuple[SimFiles, PartitionLog]:
    """Keys written again and again, tombstones, a committed and an aborted transaction; synced."""
    files = SimFiles(seed, chances=Chances(cold=0))
    files.make_dirs(HOME)
    log = open_log(files, config=SMALL)
    for round_ in range(12):
        pairs = [(b"key-%d" % (at % 5), b"%d:%d" % (round_, at) * 9) for at in range(3)]
        put(log, *pairs, producer=(7, 0, round_ * 3))
        put(log, (b"gone", b"x" if round_ % 2 else None), codec=round_ % 5)
        if round_ in (2, 5):
            put(log, (b"in", b"%d" % round_), producer=(9, 0, round_ // 5), transactional=True)
        if round_ in (4, 8):
            end(log, 9, 0, committed=round_ == 4)
    log.roll(NOW_MS)
    sync_all(log)
    log.sync_names()
    files.sync_dir("")
    log.configure(LARGE)
    return files, log


def states() -> list[list[Record]]:
    """What the log may hold: as it was, and after each of the new segments."""
    files, log = dirty_log(0)
    possible = [stored(log)]
    _, parts = run_cleaning(files, log)
    assert len(parts) >= 2
    assert any(len(part.replaces) > 1 for part in parts)
    for part in parts:
        swap_in(files, log, [part])
        possible.append(stored(log))
    assert len(possible[-1]) < len(possible[0]) / 2
    return possible


def clean_until(files: SimFiles, log: PartitionLog, step: int) -> bool:
    """Whether the whole of it was done before the step came at which the lights go out."""
    files.lose_power_after(step)
    try:
        _, parts = run_cleaning(files, log)
        swap_in(files, log, parts)
    except PowerLostError:
        return False
    files.faults.call_off()
    return True


def latest(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """The last visible record of each key, by offset."""
    visible = dict(read_committed(log))
    last = {record.key: record for record in stored(log) if record.offset in visible}
    return sorted((each.offset, each.value) for each in last.values())


def check(files: SimFiles, log: PartitionLog, possible: list[list[Record]], where: str) -> None:
    assert stored(log) in possible, where
    marks = (".cleaned", ".swap", ".deleted")
    assert not [name for name in files.list(HOME) if name.endswith(marks)], where
    problems = list(verify_partition(files, StoredPartition(HOME, PLACE), Tally(lambda _: None)))
    assert problems == [], where
    producer = log.producers.get(7)
    assert producer is not None, where
    assert producer.last_sequence == 35, where


def every_step(seed: int, fall: Callable[[SimFiles], SimFiles], *, again: bool = False) -> int:
    """Let it happen at each step; how many steps there are."""
    possible = states()
    _, untouched = dirty_log(seed)
    synced_to, visible = untouched.recovery_point, latest(untouched)
    for step in range(1, STEPS_MAX):
        files, log = dirty_log(seed)
        done = clean_until(files, log, step)
        if done:
            return step
        files = fall(files)
        if again:
            files = fall_while_mending(files, step, synced_to, fall)
        reopened = open_here(files, LARGE, synced_to)
        where = f"seed {seed}, step {step}"
        check(files, reopened, possible, where)
        assert latest(reopened) == visible, where
        if step % 7 == 0:
            sync_all(reopened)
            _, parts = run_cleaning(files, reopened)
            swap_in(files, reopened, parts)
            check(files, reopened, [possible[-1]], where)
    raise AssertionError("it never ends")


def fall_while_mending(
    files: SimFiles, step: int, synced_to: int, fall: Callable[[SimFiles], SimFiles]
) -> SimFiles:
    files.lose_power_after(step % 13 + 1)
    try:
        open_here(files, LARGE, synced_to)
    except PowerLostError:
        return fall(files)
    return files.kill()


def test_a_kill_at_every_step() -> None:
    assert every_step(1, SimFiles.kill) > 40


@pytest.mark.parametrize("seed", range(2))
def test_power_loss_at_every_step(seed: int) -> None:
    assert every_step(seed, SimFiles.crash) > 40


@pytest.mark.parametrize("seed", [10])
def test_power_loss_while_an_interrupted_swap_is_mended(seed: int) -> None:
    assert every_step(seed, SimFiles.crash, again=True) > 40


def test_the_recovery_point_may_be_as_old_as_it_likes() -> None:
    """Nobody takes what compaction has left out for a lost tail."""
    files, log = dirty_log(0)
    _, parts = run_cleaning(files, log)
    swap_in(files, log, parts)
    expected, ends = stored(log), log.end_offset
    reopened = open_here(files.kill(), LARGE, 0)
    assert stored(reopened) == expected
    assert reopened.end_offset == ends
