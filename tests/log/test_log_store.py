"""The data directory: one holder, honest marks, and nothing left of what was deleted."""

import errno
import shutil
import uuid
from pathlib import Path

import pytest
from tests.log.conftest import append, batch, flip, read_values, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log.dump import stored_segments
from barnabas.log.log import PartitionLog
from barnabas.log.recovery import DamagedLogError
from barnabas.log.store import LogStore, topic_id_text
from barnabas.log.strays import ended_before
from barnabas.model.errors import BarnabasError
from barnabas.model.stops import Stop
from barnabas.model.topics import TopicPartition
from barnabas.sim.faults import Chances, PowerLostError
from barnabas.sim.files import SimFiles
from barnabas.world.entropy import RealEntropy
from barnabas.world.files import DiskFiles
from barnabas.world.memory import MemoryFiles

ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
PART = TopicPartition("events", 0)
CONFIG = TopicConfig(segment_bytes=200, file_delete_delay_ms=60_000)
LOG = "data/events-0/00000000000000000000.log"
LAST = "data/events-0/00000000000000000004.log"
MARK = "data/.kafka_cleanshutdown"


class Clock:
    """Time that goes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(files: MemoryFiles | SimFiles, clock: Clock | None = None) -> LogStore:
    return LogStore(files, "data", clock or Clock(), RealEntropy())


def filled(store: LogStore, count: int = 5, part: TopicPartition = PART) -> PartitionLog:
    log = store.open(part, ID, CONFIG)
    for number in range(count):
        append(log, batch(b"%d" % number), now_ms=2_000_000_000_000)
    return log


def remove_due(store: LogStore) -> int:
    due = store.take_due_removals()
    for remove in due:
        remove()
    return len(due)


def test_a_directory_has_one_holder_at_a_time() -> None:
    files = MemoryFiles()
    first = opened(files)
    with pytest.raises(BarnabasError, match="in use by another broker: stop that one"):
        opened(files)
    first.close()
    opened(files).abandon()
    opened(files)


def test_the_clean_mark_is_there_only_between_a_clean_stop_and_the_next_start() -> None:
    files = MemoryFiles()
    store = opened(files)
    assert not store.clean
    filled(store)
    store.close()
    assert files.exists(MARK)
    again = opened(files)
    assert again.clean
    again.abandon()
    assert files.exists(MARK), "a start that came to nothing takes nothing"
    third = opened(files)
    assert third.clean
    filled(third)
    assert not files.exists(MARK)
    third.abandon()
    assert not opened(files).clean


def test_a_kill_is_told_from_a_power_loss() -> None:
    files = SimFiles(1)

    def life(files: SimFiles) -> LogStore:
        store = opened(files)
        store.mark_boot()
        filled(store)
        return store

    assert life(files).last_stop is Stop.LOSSY, "nobody knows who was here before"
    files = files.kill()
    assert life(files).last_stop is Stop.KILLED
    files = files.crash()
    store = opened(files)
    assert store.last_stop is Stop.LOSSY
    filled(store)
    files = files.kill()
    assert life(files).last_stop is Stop.LOSSY, "the loss was known to nobody"
    files = files.kill()
    life(files).close()
    assert life(files.crash()).last_stop is Stop.CLEAN


def test_after_a_failed_disk_a_kill_is_no_excuse() -> None:
    files = SimFiles(1)
    store = opened(files)
    store.mark_boot()
    store.distrust()
    store.distrust()
    assert opened(files.kill()).last_stop is Stop.LOSSY


def test_the_boot_of_this_machine_is_remembered(tmp_path: Path) -> None:
    store = LogStore(DiskFiles(), str(tmp_path), Clock(), RealEntropy())
    store.mark_boot()
    store.abandon()
    again = LogStore(DiskFiles(), str(tmp_path), Clock(), RealEntropy())
    known = Path("/proc/sys/kernel/random/boot_id").exists()
    assert again.last_stop is (Stop.KILLED if known else Stop.LOSSY)
    again.abandon()


def test_a_directory_that_was_put_back_from_a_copy_is_not_as_it_was_left(tmp_path: Path) -> None:
    home, backup = tmp_path / "data", tmp_path / "backup"
    store = LogStore(DiskFiles(), str(home), Clock(), RealEntropy())
    store.mark_boot()
    store.abandon()
    shutil.copytree(home, backup)
    home.rename(tmp_path / "broken")
    shutil.copytree(backup, home)
    again = LogStore(DiskFiles(), str(home), Clock(), RealEntropy())
    assert again.last_stop is Stop.LOSSY
    again.abandon()


def test_everything_survives_a_stop_and_a_kill() -> None:
    files = MemoryFiles()
    before = read_values(filled(store := opened(files)))
    store.close()
    store = opened(files)
    assert read_values(store.open(PART, ID, CONFIG)) == before
    store.abandon()
    assert read_values(opened(files).open(PART, ID, CONFIG)) == before


def test_the_files_of_the_directory_are_kafkas() -> None:
    files = MemoryFiles()
    store = opened(files)
    log = filled(store)
    log.advance_start(2)
    store.close()
    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n1\nevents 0 5\n"
    assert files.read("data/log-start-offset-checkpoint") == b"0\n1\nevents 0 2\n"
    assert files.read("data/events-0/partition.metadata") == (
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    assert files.read("data/events-0/leader-epoch-checkpoint") == b"0\n1\n0 2\n"
    assert topic_id_text(ID) == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_recovery_point_and_start_are_those_of_the_last_checkpoint() -> None:
    files = MemoryFiles()
    store = opened(files)
    log = filled(store)
    sync(log)
    log.advance_start(3)
    store.checkpoint_job()()
    append(log, batch(b"5"), now_ms=2_000_000_000_000)
    store.abandon()
    again = opened(files).open(PART, ID, CONFIG)
    assert (again.start_offset, again.recovery_point, again.end_offset) == (3, 5, 6)


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_a_damaged_checkpoint_is_left_out(name: str) -> None:
    files = MemoryFiles()
    filled(store := opened(files))
    store.close()
    files.replace(f"data/{name}", b"garbage")
    files.remove(MARK)
    log = opened(files).open(PART, ID, CONFIG)
    assert len(read_values(log)) == 5


def test_a_younger_checkpoint_is_not_undone_by_an_older_one_that_was_slow() -> None:
    files = MemoryFiles()
    store = opened(files)
    log = filled(store)
    slow = store.checkpoint_job()
    log.advance_start(4)
    store.checkpoint_job()()
    slow()
    assert files.read("data/log-start-offset-checkpoint") == b"0\n1\nevents 0 4\n"


def test_the_folder_of_an_older_topic_of_the_same_name_is_set_aside() -> None:
    files = MemoryFiles()
    log = filled(store := opened(files))
    log.advance_start(3)
    store.close()
    store = opened(files)
    fresh = store.open(PART, OTHER_ID, CONFIG)
    assert (fresh.start_offset, fresh.end_offset, fresh.recovery_point) == (0, 0, 0)
    (stray,) = [name for name in files.list("data") if name.endswith("-stray")]
    assert files.exists(f"data/{stray}/partition.metadata")
    store.abandon()
    assert opened(files).open(PART, OTHER_ID, CONFIG).end_offset == 0


def test_folders_of_no_topic_are_set_aside_and_others_left_alone() -> None:
    files = MemoryFiles()
    store = opened(files)
    filled(store)
    filled(store, part=TopicPartition("gone", 3))
    store.close()
    files.make_dirs("data/notes")
    store = opened(files)
    store.clear_strays({PART})
    assert files.exists(LOG)
    assert files.exists("data/notes")
    assert not files.exists("data/gone-3")
    strays = [name for name in files.list("data") if name.endswith("-stray")]
    assert [name.startswith("gone-3.") for name in strays] == [True]
    store.clear_strays({PART})
    assert strays == [name for name in files.list("data") if name.endswith("-stray")]


@pytest.mark.parametrize(
    ("topic_id", "epoch", "goes"),
    [
        (ID, 1, True),
        (ID, 0, False),  # Records of that epoch are here: somebody knows less than we do.
        (OTHER_ID, 1, False),
    ],
)
def test_what_was_moved_away_goes_if_that_is_certain(
    topic_id: uuid.UUID, epoch: int, goes: bool
) -> None:
    files = MemoryFiles()
    store = opened(files)
    filled(store)
    store.close()
    store = opened(files)
    store.doom(store.clear_strays(set(), {PART: (topic_id, epoch)}))
    assert not files.exists(LOG)
    remove_due(store)
    left = [name for name in files.list("data") if name.startswith(PART.directory)]
    assert [name.endswith("-stray") for name in left] == ([] if goes else [True])


def test_without_its_list_of_epochs_a_folder_is_judged_by_its_batches() -> None:
    files = MemoryFiles()
    store = opened(files)
    filled(store)
    store.close()
    files.replace("data/events-0/leader-epoch-checkpoint", b"nonsense")
    assert not ended_before(files, "data/events-0", 9)
    files.remove("data/events-0/leader-epoch-checkpoint")
    assert ended_before(files, "data/events-0", 1)
    assert not ended_before(files, "data/events-0", 0)
    files.replace(LAST, files.read(LAST) + bytes(100))
    assert not ended_before(files, "data/events-0", 1), "who knows what that was"
    for name in files.list("data/events-0"):
        if name.endswith(".log"):
            files.replace(f"data/events-0/{name}", b"")
    assert ended_before(files, "data/events-0", 0)


def test_a_deleted_partition_is_gone_at_once_and_its_files_later(clock: Clock) -> None:
    files = MemoryFiles()
    store = opened(files, clock)
    log = filled(store)
    store.delete(PART)
    assert PART not in store.logs
    assert log.failure is not None
    assert not files.exists("data/events-0")
    store.checkpoint_job()()
    clock.now_s += 59
    assert remove_due(store) == 0
    clock.now_s += 1
    assert remove_due(store) == 1
    assert [name for name in files.list("data") if "events" in name] == []
    assert remove_due(store) == 0


def test_deleting_and_restarting_leaves_nothing() -> None:
    files = MemoryFiles()
    store = opened(files)
    filled(store)
    store.delete(PART)
    assert [name for name in files.list("data") if name.endswith("-delete")]
    store.abandon()
    # Nobody waits for it, and the next removal takes it.
    assert remove_due(opened(files)) == 1
    assert [name for name in files.list("data") if "events" in name] == []


def test_deleting_what_is_not_there_changes_nothing() -> None:
    files = MemoryFiles()
    store = opened(files)
    store.delete(PART)
    assert store.take_due_removals() == []


def test_a_topic_may_be_made_again_while_the_old_files_wait(clock: Clock) -> None:
    files = MemoryFiles()
    store = opened(files, clock)
    filled(store)
    store.delete(PART)
    fresh = store.open(PART, OTHER_ID, CONFIG)
    assert fresh.end_offset == 0
    append(fresh, batch(b"new"), now_ms=2_000_000_000_000)
    store.checkpoint_job()()
    clock.now_s += 61
    assert remove_due(store) == 1
    assert read_values(fresh) == [(0, b"new")]


@pytest.mark.parametrize("records", [1, 9])
def test_what_the_checkpoints_say_of_a_deleted_topic_does_not_befall_its_successor(
    records: int,
) -> None:
    files = MemoryFiles()
    store = opened(files)
    log = filled(store)
    log.advance_start(4)
    store.checkpoint_job()()
    store.delete(PART)
    fresh = store.open(PART, OTHER_ID, CONFIG)
    for number in range(records):
        append(fresh, batch(b"new %d" % number), now_ms=2_000_000_000_000)
    store.abandon()
    again = opened(files).open(PART, OTHER_ID, CONFIG)
    assert (again.start_offset, again.recovery_point) == (0, 0)
    assert read_values(again) == [(n, b"new %d" % n) for n in range(records)]


def test_opening_some_logs_does_not_make_the_others_points_forgotten() -> None:
    files = MemoryFiles()
    store = opened(files)
    other = TopicPartition("other", 0)
    filled(store)
    filled(store, part=other).advance_start(2)
    store.close()
    store = opened(files)
    store.open(PART, ID, CONFIG)
    store.checkpoint_job()()
    store.abandon()
    again = opened(files).open(other, ID, CONFIG)
    assert (again.start_offset, again.recovery_point) == (2, 5)


def test_of_topics_that_are_no_more_nothing_stays_in_the_checkpoints() -> None:
    files = MemoryFiles()
    store = opened(files)
    filled(store)
    store.close()
    store = opened(files)
    store.clear_strays(set())
    store.close()
    assert files.read("data/recovery-point-offset-checkpoint") == b"0\n0\n"


def test_segments_go_oldest_first_and_each_for_good(clock: Clock) -> None:
    files = SimFiles(5, chances=Chances(cold=0))
    store = opened(files, clock)
    log = filled(store)
    sync(log)
    doomed = log.segments[:2]
    store.drop_segments(log, list(doomed))
    clock.now_s += 61
    (remove,) = store.take_due_removals()
    files.lose_power_after(7)
    with pytest.raises(PowerLostError):
        remove()
    left = [segment.base_offset for segment in stored_segments(files.crash(), "data/events-0")]
    assert left == sorted(left)
    assert doomed[1].base_offset in left or doomed[0].base_offset not in left


def damaged(files: MemoryFiles) -> LogStore:
    """A store in which one of two partitions can not be opened."""
    store = opened(files)
    log = filled(store)
    log.advance_start(1)
    other = TopicPartition("other", 0)
    filled(store, part=other)
    for each in store.logs.values():
        sync(each)
    store.checkpoint_job()()
    store.abandon()
    flip(files, LAST, 8, 7)
    store = opened(files)
    with pytest.raises(DamagedLogError):
        store.open(PART, ID, CONFIG)
    store.open(other, ID, CONFIG)
    return store


@pytest.mark.parametrize("stop", ["close", "abandon"])
def test_a_damaged_log_is_still_damaged_at_the_next_start(stop: str) -> None:
    files = MemoryFiles()
    store = damaged(files)
    before = {name: files.read(f"data/events-0/{name}") for name in files.list("data/events-0")}
    store.checkpoint_job()()
    getattr(store, stop)()
    assert not files.exists(MARK)
    store = opened(files)
    with pytest.raises(DamagedLogError):
        store.open(PART, ID, CONFIG)
    logs = {name: data for name, data in before.items() if name.endswith(".log")}
    assert logs.items() <= {name: files.read(f"data/events-0/{name}") for name in logs}.items()


def test_a_damaged_log_that_was_mended_is_opened_as_it_was() -> None:
    files = MemoryFiles()
    damaged(files).close()
    flip(files, LAST, 8, 7)
    log = opened(files).open(PART, ID, CONFIG)
    assert (log.start_offset, log.recovery_point, log.end_offset) == (1, 5, 5)
    assert len(read_values(log)) == 4


def test_a_damaged_log_can_be_deleted() -> None:
    files = MemoryFiles()
    store = damaged(files)
    store.delete(PART)
    assert not files.exists("data/events-0")
    store.checkpoint_job()()
    assert remove_due(store) == 1
    store.close()
    assert files.exists(MARK)
    assert [name for name in files.list("data") if "events" in name] == []


def test_a_log_that_can_not_be_synced_at_the_end_denies_the_clean_mark() -> None:
    files = SimFiles(1, chances=Chances(cold=0))
    store = opened(files)
    filled(store)
    files.faults.fail_next("sync", ".log")
    store.close()
    assert not files.exists(MARK)
    store = opened(files)
    assert len(read_values(store.open(PART, ID, CONFIG))) == 5


def test_a_failed_log_denies_the_clean_mark() -> None:
    files = MemoryFiles()
    store = opened(files)
    filled(store).fail("a sync failed")
    store.close()
    assert not files.exists(MARK)


def test_an_error_at_the_end_still_releases_the_lock() -> None:
    files = SimFiles(1, chances=Chances(cold=0))
    store = opened(files)
    filled(store)
    files.disk_bytes_max = 0
    with pytest.raises(OSError, match="No space") as full:
        store.close()
    assert full.value.errno == errno.ENOSPC
    files.disk_bytes_max = None
    assert not opened(files).clean
