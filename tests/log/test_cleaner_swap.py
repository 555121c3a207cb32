"""Putting new segments in: what may go wrong, and who is reading meanwhile."""

import errno
from pathlib import Path

import pytest
from tests.log.cleaner_scenes import compacting, put, run_cleaning, stored, swap_in
from tests.log.conftest import NOW_MS, open_log, read_values, sync
from tests.log.txn_log import aborted, end

from barnabas.log.cleaner.plan import CleanedSegment, CleaningFailedError
from barnabas.log.cleaner.swap import Swap, finish_swaps, remove_cleaned
from barnabas.log.log import PartitionLog
from barnabas.log.truncation import truncate_to
from barnabas.ports.files import Files
from barnabas.wire.records.batch import parse_header
from barnabas.world.files import DiskFiles
from barnabas.world.memory import MemoryFiles

HOME = "data/events-0"
ROOMY = compacting(segment_bytes=10_000)


class UnwillingFiles(MemoryFiles):
    """A rename fails, as on a disk without room for another name; or all do from then on."""

    def __init__(self, *, for_good: bool = False) -> None:
        super().__init__()
        self.renames = 0
        self.fail_at: int | None = None
        self.for_good = for_good

    def rename(self, source: str, target: str) -> None:
        self.renames += 1
        at = self.fail_at
        if at is not None and (self.renames == at or (self.for_good and self.renames > at)):
            raise OSError(errno.ENOSPC, "no room for another name", target)
        super().rename(source, target)


def dirty_log(files: Files) -> PartitionLog:
    """Four closed segments of five offsets each."""
    files.make_dirs(HOME)
    log = open_log(files, config=ROOMY)
    for number in range(4):
        for at in range(5):
            put(log, (b"%d" % at, b"%d:%d" % (number, at)))
        log.roll(NOW_MS)
    while log.proven_offset < log.end_offset:
        sync(log)
    return log


def marked(files: Files) -> list[str]:
    return [name for name in files.list(HOME) if name.endswith((".cleaned", ".swap", ".deleted"))]


def cleaned(files: Files, log: PartitionLog) -> CleanedSegment:
    _, parts = run_cleaning(files, log)
    (part,) = parts
    assert part.replaces == (0, 5, 10, 15)
    return part


@pytest.mark.parametrize("renames", range(3 * 4 + 1))
def test_a_rename_that_fails_leaves_everything_as_it_was(renames: int) -> None:
    files = UnwillingFiles()
    log = dirty_log(files)
    put(log, (b"t", b"t"), producer=(9, 0, 0), transactional=True)
    before = stored(log)
    swap = Swap(files, log, cleaned(files, log))
    swap.prepare()
    files.fail_at = files.renames + renames + 1
    if renames == 3 * 4:
        swap.put_in(NOW_MS)
        assert len(log.segments) == 2
        return
    with pytest.raises(OSError, match="no room"):
        swap.put_in(NOW_MS)
    swap.undo()
    assert marked(files) == []
    assert log.failure is None
    assert stored(log) == before
    _, parts = run_cleaning(files, log)
    swap_in(files, log, parts)
    assert len(log.segments) == 2


def test_when_nothing_can_be_undone_the_log_goes_offline_and_a_restart_mends_it() -> None:
    files = UnwillingFiles(for_good=True)
    log = dirty_log(files)
    before = read_values(log)
    swap = Swap(files, log, cleaned(files, log))
    swap.prepare()
    files.fail_at = files.renames + 5
    with pytest.raises(OSError, match="no room"):
        swap.put_in(NOW_MS)
    assert log.failure is not None
    files.fail_at = None
    reopened = open_log(files, config=ROOMY, recovery_point=20)
    assert read_values(reopened) == before[-5:]
    assert marked(files) == []


@pytest.mark.parametrize("renames", range(1, 3 * 4))
def test_what_can_not_be_moved_back_is_not_undone_either(renames: int) -> None:
    files = UnwillingFiles(for_good=True)
    log = dirty_log(files)
    before = read_values(log)
    swap = Swap(files, log, cleaned(files, log))
    swap.prepare()
    files.fail_at = files.renames + renames + 1
    with pytest.raises(OSError, match="no room"):
        swap.put_in(NOW_MS)
    files.fail_at = None
    swap.undo()
    reopened = open_log(files, config=ROOMY, recovery_point=20)
    assert read_values(reopened) == before[-5:]


def test_a_segment_may_wait_for_its_final_name(files: MemoryFiles) -> None:
    log = dirty_log(files)
    swap = Swap(files, log, cleaned(files, log))
    swap.prepare()
    swap.put_in(NOW_MS)
    swap.sync()
    expected = stored(log)
    assert log.segments[0].mark == ".swap"
    assert len(expected) == 5
    log.close(clean=True)
    reopened = open_log(files, config=ROOMY, recovery_point=20, clean=True)
    assert stored(reopened) == expected
    assert reopened.segments[0].mark == ""
    assert marked(files) == []


def test_a_log_that_has_changed_is_left_alone(files: MemoryFiles) -> None:
    log = dirty_log(files)
    part = cleaned(files, log)
    assert Swap(files, log, part).is_possible()
    swap = Swap(files, log, part)
    log.drop(log.segments[:1])
    assert not swap.is_possible()
    assert not Swap(files, log, part).is_possible()
    swap.undo()
    assert marked(files) == []


def test_a_log_that_was_cut_is_left_alone(files: MemoryFiles) -> None:
    log = dirty_log(files)
    swap = Swap(files, log, cleaned(files, log))
    truncate_to(log, 12, NOW_MS)
    assert not swap.is_possible()


def test_another_policy_or_a_failure_ends_it(files: MemoryFiles) -> None:
    log = dirty_log(files)
    swap = Swap(files, log, cleaned(files, log))
    log.configure(compacting(cleanup_policy=frozenset({"delete"})))
    assert not swap.is_possible()
    log.configure(ROOMY)
    assert swap.is_possible()
    log.fail("for a test")
    assert not swap.is_possible()


def test_what_is_left_of_a_cleaning_that_died_is_removed(files: MemoryFiles) -> None:
    log = dirty_log(files)
    cleaned(files, log)
    assert len(marked(files)) == 3
    remove_cleaned(files, HOME)
    assert marked(files) == []
    remove_cleaned(files, "data/not-there-0")


def test_readers_go_on_across_a_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few descriptors, so that files are opened anew by their names while they are read."""
    files = DiskFiles(open_max=2)
    monkeypatch.chdir(tmp_path)
    log = dirty_log(files)
    plans = [log.plan_read(offset, 1_000, 20, at_least_one=True) for offset in range(20)]
    searches = log.timestamp_search(20)
    swap = Swap(files, log, cleaned(files, log))

    def read_all() -> None:
        for offset, plan in enumerate(plans):
            assert plan is not None
            assert parse_header(plan.read().data).base_offset == offset
        timed = searches.first_at_or_after(NOW_MS)
        assert timed is not None
        assert timed.offset == 0

    for step in (swap.prepare, lambda: swap.put_in(NOW_MS), swap.sync, swap.name, swap.sync):
        step()
        read_all()
        first = 0 if step == swap.prepare else 15
        fresh = log.plan_read(0, 1_000, 20, at_least_one=True)
        assert fresh is not None
        assert parse_header(fresh.read().data).base_offset == first
    swap.removal()()
    assert [name for name in files.list(HOME) if name.endswith(".log")] == [
        "00000000000000000000.log",
        "00000000000000000020.log",
    ]
    log.close(clean=False)


def test_aborted_transactions_are_found_before_and_after(files: MemoryFiles) -> None:
    files.make_dirs(HOME)
    log = open_log(files, config=ROOMY)
    for number in range(3):
        put(log, (b"a", b"%d" % number), producer=(9, 0, number), transactional=True)
        end(log, 9, 0, committed=False)
        log.roll(NOW_MS)
    while log.proven_offset < log.end_offset:
        sync(log)
    told = aborted(log)
    search = log.aborted_search(2, 6)
    assert search is not None
    _, parts = run_cleaning(files, log)
    swap = Swap(files, log, parts[0])
    swap.prepare()
    swap.put_in(NOW_MS)
    # One that was begun before finds what it looked for, and so does one that begins now.
    assert [each.first_offset for each in search.read()] == [2, 4]
    assert aborted(log) == told == [(9, 0), (9, 2), (9, 4)]
    swap.name()
    assert aborted(log) == told
    reopened = open_log(files, config=ROOMY, recovery_point=6)
    # (An index that is built anew says only what there is still data of.)
    assert aborted(reopened) in (told, told[-1:])
    assert [name for name in files.list(HOME) if name.endswith(".txnindex")] == [
        "00000000000000000000.txnindex"
    ]


def test_indexes_of_segments_that_are_gone_are_removed_at_the_start(files: MemoryFiles) -> None:
    log = dirty_log(files)
    for name in ("00000000000000000007.index", "00000000000000000007.txnindex"):
        files.open(f"{HOME}/{name}", create=True)
    log.close(clean=True)
    open_log(files, config=ROOMY, recovery_point=20, clean=True)
    assert not [name for name in files.list(HOME) if name.startswith("00000000000000000007")]


def test_a_damaged_swap_changes_nothing(files: MemoryFiles) -> None:
    log = dirty_log(files)
    Swap(files, log, cleaned(files, log)).prepare()
    path = f"{HOME}/00000000000000000000.log.swap"
    files.open(path).truncate(files.size_of(path) - 1)
    before = files.list(HOME)
    with pytest.raises(CleaningFailedError, match="is damaged at byte"):
        finish_swaps(files, HOME)
    assert files.list(HOME) == before
