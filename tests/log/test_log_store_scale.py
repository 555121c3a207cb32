"""What starts, stops and checkpoints cost: counted in calls and bytes, whatever is stored."""

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.log.conftest import append, batch, read_values, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log import checkpoints
from barnabas.log.log import PartitionLog
from barnabas.log.store import LogStore
from barnabas.model.topics import TopicPartition
from barnabas.world.clock import RealClock
from barnabas.world.entropy import RealEntropy
from barnabas.world.memory import MemoryFile, MemoryFiles

ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
PART = TopicPartition("events", 0)
CONFIG = TopicConfig(segment_bytes=20_000, index_interval_bytes=2_000)
NOW_MS = 2_000_000_000_000


class CountedFile(MemoryFile):
    """Counts the bytes that are read from it, by the kind of file."""

    read: Counter[str]
    kind: str

    def pread(self, length: int, position: int) -> bytes:
        data = super().pread(length, position)
        self.read[self.kind] += len(data)
        return data


class CountedFiles(MemoryFiles):
    """Counts calls, and bytes that are read, by kinds of files."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.read_bytes: Counter[str] = Counter()
        self.written: list[str] = []

    def forget(self) -> None:
        self.calls.clear()
        self.read_bytes.clear()
        self.written.clear()

    def _counted(self, path: str, *, create: bool = False, writable: bool = True) -> CountedFile:
        file = CountedFile(self._content(path, create=create), writable=writable)
        file.read, file.kind = self.read_bytes, path.rpartition(".")[2]
        return file

    def open(self, path: str, *, create: bool = False) -> CountedFile:
        self.calls["open"] += 1
        if create:
            self.written.append(path)
        return self._counted(path, create=create)

    def open_read_only(self, path: str) -> CountedFile:
        self.calls["open"] += 1
        return self._counted(path, writable=False)

    def exists(self, path: str) -> bool:
        self.calls["exists"] += 1
        return super().exists(path)

    def size_of(self, path: str) -> int:
        self.calls["size_of"] += 1
        return super().size_of(path)

    def list(self, path: str) -> Any:
        self.calls["list"] += 1
        return super().list(path)

    def read(self, path: str) -> bytes:
        self.calls["read"] += 1
        self.read_bytes[path.rpartition("/")[2].rpartition(".")[2]] += super().size_of(path)
        return super().read(path)

    def replace(self, path: str, data: bytes) -> None:
        self.written.append(path)
        super().replace(path, data)


def opened(files: MemoryFiles) -> LogStore:
    return LogStore(files, "data", RealClock(), RealEntropy())


def fill(log: PartitionLog, segments: int) -> None:
    """So many segments in all; each is synced once it is rolled, as housekeeping does it."""
    while len(log.segments) < segments:
        before = len(log.segments)
        append(log, batch(b"x" * 900), now_ms=NOW_MS)
        if len(log.segments) > before:
            sync(log)


def start_cost(segments: int) -> tuple[dict[str, int], Counter[str], PartitionLog]:
    """Calls and bytes of a clean start."""
    files = CountedFiles()
    store = opened(files)
    fill(store.open(PART, ID, CONFIG), segments)
    store.close()
    store = opened(files)
    assert store.clean
    files.forget()
    log = store.open(PART, ID, CONFIG)
    return dict(files.calls), Counter(files.read_bytes), log


def test_a_clean_start_reads_the_same_whatever_is_stored() -> None:
    few_calls, few_bytes, _ = start_cost(2)
    many_calls, many_bytes, log = start_cost(40)
    assert len(log.segments) == 40
    stats = (few_calls.pop("size_of"), many_calls.pop("size_of"))
    assert stats[1] - stats[0] == 38, "one look at the size of each segment"
    assert many_calls == few_calls
    assert many_bytes["log"] <= few_bytes["log"] + 1000
    assert many_bytes["timeindex"] == few_bytes["timeindex"]
    assert many_bytes["index"] == few_bytes["index"]


def test_a_start_asks_each_folder_once() -> None:
    files = CountedFiles()
    store = opened(files)
    append(store.open(PART, ID, CONFIG), batch(b"1"), now_ms=NOW_MS)
    store.close()
    store = opened(files)
    files.forget()
    store.open(PART, ID, CONFIG)
    assert files.calls["list"] == 1
    assert files.calls["exists"] <= 2, "the data directory's mark, and no more"
    assert sum(files.calls.values()) <= 12


@pytest.mark.parametrize("segments", [3, 30])
def test_recovery_after_a_kill_reads_from_the_recovery_point_on(segments: int) -> None:
    files = CountedFiles()
    store = opened(files)
    log = store.open(PART, ID, CONFIG)
    fill(log, segments)
    for _ in range(5):
        append(log, batch(b"y" * 900), now_ms=NOW_MS)
    values = read_values(log)
    store.checkpoint_job()()
    store.abandon()
    store = opened(files)
    assert not store.clean
    files.forget()
    log = store.open(PART, ID, CONFIG)
    # The segment in which the recovery point lies, and the one that ends there, whose indexes may
    # not have been synced with it.
    assert files.read_bytes["log"] <= 3 * CONFIG.segment_bytes
    assert files.read_bytes["index"] == files.read_bytes["timeindex"] == 0
    assert read_values(log) == values


def test_without_a_checkpoint_everything_is_read() -> None:
    """The counter can see it: the test above does not pass for want of eyes."""
    files = CountedFiles()
    store = opened(files)
    fill(store.open(PART, ID, CONFIG), 10)
    store.abandon()
    store = opened(files)
    files.forget()
    store.open(PART, ID, CONFIG)
    assert files.read_bytes["log"] > 8 * CONFIG.segment_bytes


def test_a_stop_writes_nothing_for_logs_that_have_not_changed() -> None:
    files = CountedFiles()
    store = opened(files)
    parts = [TopicPartition("events", number) for number in range(20)]
    for part in parts:
        store.open(part, ID, CONFIG)
    for part in parts[:10]:
        append(store.logs[part], batch(b"1"), now_ms=NOW_MS)
    store.close()
    assert not any(f"events-{number}/" in path for path in files.written[-30:] for number in (15,))
    store = opened(files)
    for part in parts:
        store.open(part, ID, CONFIG)
    append(store.logs[parts[3]], batch(b"2"), now_ms=NOW_MS)
    files.forget()
    store.close()
    touched = {path.split("/")[1] for path in files.written if path.count("/") == 2}
    assert touched == {"events-3"}
    store = opened(files)
    assert store.clean
    logs = [store.open(part, ID, CONFIG) for part in parts]
    assert [log.end_offset for log in logs] == [1, 1, 1, 2, *[1] * 6, *[0] * 10]


@pytest.mark.parametrize(
    "change",
    [
        lambda log: append(log, batch(b"more"), now_ms=NOW_MS),
        lambda log: log.roll(NOW_MS),
        lambda log: log.advance_start(1),
        lambda log: append(log, batch(b"epoch"), now_ms=NOW_MS, epoch=7),
    ],
    ids=["append", "roll", "start", "epoch"],
)
def test_whatever_changes_a_log_is_saved_again(change: Callable[[PartitionLog], Any]) -> None:
    files = MemoryFiles()
    store = opened(files)
    append(store.open(PART, ID, CONFIG), batch(b"1"), now_ms=NOW_MS)
    append(store.logs[PART], batch(b"2"), now_ms=NOW_MS)
    store.close()
    store = opened(files)
    log = store.open(PART, ID, CONFIG)
    change(log)
    told = (log.start_offset, log.end_offset, len(log.segments), log.epochs.entries)
    values = read_values(log)
    store.close()
    store = opened(files)
    assert store.clean
    again = store.open(PART, ID, CONFIG)
    assert again.saved, "believed, not recovered"
    found = (again.start_offset, again.end_offset, len(again.segments), again.epochs.entries)
    assert found == told
    assert read_values(again) == values


def test_logs_can_be_closed_by_several_before_the_store_is() -> None:
    files = MemoryFiles()
    store = opened(files)
    parts = [TopicPartition("events", number) for number in range(4)]
    for part in parts:
        append(store.open(part, ID, CONFIG), batch(b"1"), now_ms=NOW_MS)
    store.close_logs(parts[:2])
    store.close_logs(parts[1:])
    store.close()
    store = opened(files)
    assert store.clean
    assert [store.open(part, ID, CONFIG).end_offset for part in parts] == [1, 1, 1, 1]


def test_a_log_that_could_not_be_closed_cleanly_leaves_no_mark() -> None:
    files = MemoryFiles()
    store = opened(files)
    log = store.open(PART, ID, CONFIG)
    append(log, batch(b"1"), now_ms=NOW_MS)
    log.fail("the disk is gone")
    store.close_logs([PART])
    store.close()
    assert not opened(files).clean


def test_a_checkpoint_looks_only_at_logs_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    store = opened(files)
    parts = [TopicPartition("events", number) for number in range(50)]
    for part in parts:
        store.open(part, ID, CONFIG)
    store.checkpoint_job()()
    looked: list[str] = []
    real = PartitionLog.__dict__["proven_offset"].fget

    def proven_offset(log: PartitionLog) -> Any:
        looked.append(log.partition.directory)
        return real(log)

    monkeypatch.setattr(PartitionLog, "proven_offset", property(proven_offset))
    store.checkpoint_job()()
    assert looked == []
    log = store.logs[parts[7]]
    append(log, batch(b"1"), now_ms=NOW_MS)
    sync(log)
    store.checkpoint_job()()
    assert looked == ["events-7"]
    rows = files.read("data/recovery-point-offset-checkpoint").decode().splitlines()
    assert rows[1] == "50"
    assert "events 7 1" in rows


def test_a_checkpoint_on_its_way_does_not_befall_the_next_topic_of_a_name() -> None:
    files = MemoryFiles()
    store = opened(files)
    log = store.open(PART, ID, CONFIG)
    for _ in range(5):
        append(log, batch(b"1"), now_ms=NOW_MS)
    sync(log)
    slow = store.checkpoint_job()
    store.delete(PART)
    job = store.forget([PART])
    assert job is not None, "the slow one speaks of it"
    job()
    fresh = store.open(PART, OTHER_ID, CONFIG)
    append(fresh, batch(b"new"), now_ms=NOW_MS)
    slow()
    store.abandon()
    again = opened(files).open(PART, OTHER_ID, CONFIG)
    assert (again.recovery_point, read_values(again)) == (0, [(0, b"new")])


def test_many_partitions_that_begin_anew_cost_one_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = MemoryFiles()
    store = opened(files)
    parts = [TopicPartition("events", number) for number in range(30)]
    for part in parts:
        store.open(part, ID, CONFIG)
    store.checkpoint_job()()
    store.doom(store.set_deleted_aside(parts))
    written: list[str] = []

    def write_offsets(*args: Any) -> None:
        written.append(args[1])
        checkpoints.write_offsets(*args)

    monkeypatch.setattr("barnabas.log.store.write_offsets", write_offsets)
    job = store.forget(parts)
    assert job is not None
    job()
    for part in parts:
        store.open(part, OTHER_ID, CONFIG)
    assert len(written) == 2
    assert store.forget([TopicPartition("other", 0)]) is None
