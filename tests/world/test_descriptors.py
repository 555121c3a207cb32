"""Few descriptors for many files: what is parked is synced, whole, and never in use."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.world.descriptors import PARKED
from barnabas.world.files import DiskFile, DiskFiles

_FILES, _OPEN_MAX = 60, 8


def finish_parking() -> None:
    for thread in threading.enumerate():
        if thread.name == "barnabas-parking":
            thread.join(60)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """No thread of one test goes on into the next."""
    yield
    finish_parking()


@pytest.fixture
def few() -> DiskFiles:
    return DiskFiles(open_max=_OPEN_MAX)


def opened(files: DiskFiles, folder: Path, count: int = _FILES) -> list[DiskFile]:
    return [files.open(str(folder / f"{number}"), create=True) for number in range(count)]


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_any_number_of_files_takes_a_bounded_number_of_descriptors(
    few: DiskFiles, tmp_path: Path
) -> None:
    held = opened(few, tmp_path)
    for turn in range(3):
        for number, file in enumerate(held):
            file.pwrite(b"%d-%d" % (number, turn), turn * 10)
            assert len(few.descriptors) <= _OPEN_MAX
            assert sum(each.descriptor != PARKED for each in held) <= _OPEN_MAX
    for number, file in enumerate(held):
        assert file.pread(99, 20) == b"%d-2" % number
        assert file.size() == 20 + len(b"%d-2" % number)
        file.truncate(1)
        file.sync()
        file.close()
    assert len(few.descriptors) == 0
    assert [(tmp_path / f"{number}").stat().st_size for number in range(_FILES)] == [1] * _FILES


def test_a_file_is_parked_only_after_all_that_was_written_to_it_is_synced(
    few: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[int, int] = {}
    real = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        real(descriptor)
        synced[os.fstat(descriptor).st_ino] = size

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    held = opened(few, tmp_path)
    for turn in range(3):
        for file in held:
            file.pwrite(b"x" * 10, turn * 10)
            for each in held:
                if each.descriptor == PARKED and not each.unsynced:
                    size = (tmp_path / str(held.index(each))).stat().st_size
                    assert size == synced.get(each.inode, 0)
    assert len(synced) > _OPEN_MAX


def test_files_that_were_only_read_or_made_are_parked_without_a_sync(
    few: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda _: pytest.fail("there was nothing to sync"))
    held = opened(few, tmp_path)
    for file in held * 2:
        assert file.pread(10, 0) == b""
    assert len(few.descriptors) <= _OPEN_MAX


def test_a_sync_that_failed_on_the_way_is_told_by_every_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DiskFiles(open_max=2)
    victim = files.open(str(tmp_path / "victim"), create=True)
    victim.pwrite(b"lost", 0)

    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        opened(files, tmp_path, 5)
        finish_parking()
    assert victim.descriptor != PARKED, "there is something unsynced in it"
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            victim.sync()
    assert victim.pread(4, 0) == b"lost"


def test_what_is_used_again_and_again_stays_open(few: DiskFiles, tmp_path: Path) -> None:
    favourite = few.open(str(tmp_path / "favourite"), create=True)
    descriptor = favourite.descriptor
    for number in range(_FILES):
        few.open(str(tmp_path / f"{number}"), create=True)
        assert favourite.pread_cached(1, 0) == b""
        assert favourite.descriptor is descriptor


def test_a_parked_file_is_not_cached_and_not_written_through_a_renamed_folder(
    few: DiskFiles, tmp_path: Path
) -> None:
    (tmp_path / "topic").mkdir()
    file = few.open(str(tmp_path / "topic" / "0.log"), create=True)
    opened(few, tmp_path)
    assert file.descriptor == PARKED
    assert file.pread_cached(1, 0) is None
    (tmp_path / "topic").rename(tmp_path / "deleted")
    with pytest.raises(FileNotFoundError):
        file.pwrite(b"x", 0)
    (tmp_path / "topic").mkdir()
    (tmp_path / "topic" / "0.log").write_bytes(b"the next topic's")
    with pytest.raises(OSError, match="Stale") as caught:
        file.pwrite(b"x", 0)
    assert caught.value.errno == errno.ESTALE
    assert (tmp_path / "topic" / "0.log").read_bytes() == b"the next topic's"


def test_a_closed_file_is_not_opened_again(few: DiskFiles, tmp_path: Path) -> None:
    first, *_ = opened(few, tmp_path)
    assert first.descriptor == PARKED
    first.close()
    uses: list[Callable[[], object]] = [
        lambda: first.pread(1, 0),
        lambda: first.pread_cached(1, 0),
        lambda: first.pwrite(b"x", 0),
        lambda: first.truncate(0),
        first.size,
        first.sync,
    ]
    for use in uses:
        with pytest.raises(OSError, match="Bad file descriptor"):
            use()


@pytest.mark.parametrize("how", ["parked", "closed"])
def test_a_descriptor_outlives_the_call_that_uses_it_and_not_longer(
    how: str, few: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = few.open(str(tmp_path / "slow"), create=True)
    file.pwrite(b"here", 0)
    file.sync()
    number = int(file.descriptor)
    begun, go_on = threading.Event(), threading.Event()
    real, seen = os.pread, list[bytes]()

    def slow(descriptor: int, length: int, position: int) -> bytes:
        begun.set()
        assert go_on.wait(60)
        return real(descriptor, length, position)

    monkeypatch.setattr(os, "pread", slow)
    reader = threading.Thread(target=lambda: seen.append(file.pread(4, 0)))
    reader.start()
    assert begun.wait(60)
    if how == "closed":
        file.close()
    others = opened(few, tmp_path, _FILES)
    assert file.descriptor != number
    assert is_open(number), "the number is neither closed nor another file's"
    assert number not in [int(each.descriptor) for each in others]
    go_on.set()
    reader.join(60)
    assert seen == [b"here"]
    assert number not in [int(file.descriptor)]


def test_a_write_that_begins_while_its_file_is_parked_is_not_left_unsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DiskFiles(open_max=64)
    file = files.open(str(tmp_path / "a"), create=True)
    file.used = False
    real = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        file._writes_begun += 1  # as another thread would, between the two looks
        return real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fstat)
        with files.descriptors.lock:
            assert not files.descriptors._park(file)
    assert file.descriptor != PARKED
    assert is_open(file.descriptor)


def test_threads_that_read_write_and_sync_never_meet_in_a_wrong_file(tmp_path: Path) -> None:
    files, threads_count, turns = DiskFiles(open_max=4), 6, 150
    held = opened(files, tmp_path, 24)
    for number, file in enumerate(held):
        file.pwrite(bytes([number]) * 64, 0)
    wrong: list[str] = []

    def writer(mine: list[int]) -> None:
        for turn in range(turns):
            for number in mine:
                held[number].pwrite(bytes([number]) * 64, 64 * (turn % 7))

    def reader(seed: int) -> None:
        for turn in range(turns * 4):
            number = (turn * 7 + seed * 5) % len(held)
            if set(held[number].pread(64, 0)) != {number}:
                wrong.append(f"{number} at turn {turn}")
            if turn % 10 == 0:
                held[number].sync()

    threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(threads_count)]
    threads += [threading.Thread(target=writer, args=(list(range(k, 24, 2)),)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert wrong == []
    assert len(files.descriptors) <= 4 + len(threads)
    for number, file in enumerate(held):
        assert set(file.pread(1000, 0)) == {number}
        file.close()


def test_a_file_that_another_thread_opens_again_is_not_taken_for_a_closed_one(
    few: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, *_ = opened(few, tmp_path)
    assert file.descriptor == PARKED
    preadv = os.preadv

    def slowly(descriptor: int, *rest: object) -> int:
        try:
            return preadv(descriptor, *rest)  # type: ignore[arg-type]
        finally:
            few.descriptors.reopen(file)

    monkeypatch.setattr(os, "preadv", slowly)
    assert file.pread_cached(1, 0) is None


def test_a_file_that_is_closed_before_it_could_be_synced_is_no_failure(
    few: DiskFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (file,) = opened(few, tmp_path, 1)
    file.pwrite(b"of a topic that is deleted", 0)
    file.close()
    few.descriptors._sync_and_park(file)
    assert caplog.messages == []
