"""The real disk where it differs from the others: full disks, cold pages, other processes."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.ports.files import AlreadyLockedError
from barnabas.world.files import DiskFiles


@contextmanager
def files_of_one_page() -> Iterator[None]:
    """No file grows past 4096 bytes. Only for a moment: the report of the tests is a file too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk_raises() -> None:
    file = DiskFiles().open("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        file.pwrite(b"x" * 100, 0)
    assert caught.value.errno == errno.ENOSPC
    file.close()


def test_a_short_write_goes_on_until_the_error(tmp_path: Path) -> None:
    file = DiskFiles().open(str(tmp_path / "a"), create=True)
    with files_of_one_page(), pytest.raises(OSError, match="too large") as caught:
        file.pwrite(b"x" * 5000, 1000)
    assert caught.value.errno == errno.EFBIG
    assert file.size() == 4096
    file.close()


def test_replace_on_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    files = DiskFiles()
    files.replace(str(tmp_path / "b"), b"old")
    with files_of_one_page(), pytest.raises(OSError, match="too large"):
        files.replace(str(tmp_path / "b"), b"n" * 5000)
    assert files.read(str(tmp_path / "b")) == b"old"
    assert sorted(os.listdir(tmp_path)) == ["b"]


@pytest.mark.parametrize("data", [b"", b"12345", memoryview(b"abcdefgh").cast("H")])
def test_a_short_first_write_is_completed(
    data: bytes | memoryview, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = DiskFiles().open(str(tmp_path / "a"), create=True)
    whole_pwrite = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda fd, data, at: whole_pwrite(fd, memoryview(data).cast("B")[:2], at)
    )
    file.pwrite(data, 3)
    assert file.pread(99, 3) == bytes(data)
    file.close()


class TestPreadCached:
    def test_what_is_in_memory_is_given(self, tmp_path: Path) -> None:
        file = DiskFiles().open(str(tmp_path / "a"), create=True)
        data = os.urandom(300_000)
        file.pwrite(data, 0)
        assert file.pread_cached(300_000, 0) == data
        assert file.pread_cached(10, 299_995) == data[-5:]
        assert file.pread_cached(10, 300_000) == b""
        file.close()

    def test_cold_pages_are_none_and_warm_ones_not(self, tmp_path: Path) -> None:
        file = DiskFiles().open(str(tmp_path / "a"), create=True)
        data = os.urandom(1 << 20)
        file.pwrite(data, 0)
        file.sync()
        for _ in range(50):  # the system may decline to drop pages that are still in some list
            _drop_from_cache(tmp_path / "a")
            if file.pread_cached(1 << 20, 0) is None:
                break
        else:
            pytest.skip("this file system keeps its pages or can not say that it would wait")
        assert file.pread(1 << 20, 0) == data
        assert file.pread_cached(1 << 20, 0) == data
        file.close()

    def test_partly_cold_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = DiskFiles().open(str(tmp_path / "a"), create=True)
        file.pwrite(b"x" * 100, 0)
        monkeypatch.setattr(os, "preadv", lambda fd, buffers, at, flags: 40)
        assert file.pread_cached(100, 0) is None
        assert file.pread_cached(100, 60) is not None
        file.close()

    @pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS])
    def test_a_file_system_that_can_not_say_is_asked_once(
        self, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []

        def refuse(fd: int, buffers: object, at: int, flags: int) -> int:
            asked.append(at)
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "preadv", refuse)
        file = DiskFiles().open(str(tmp_path / "a"), create=True)
        file.pwrite(b"abc", 0)
        assert file.pread_cached(3, 0) == b"abc"
        assert file.pread_cached(3, 1) == b"bc"
        assert asked == [0]
        file.close()

    def test_other_errors_are_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def break_down(fd: int, buffers: object, at: int, flags: int) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "preadv", break_down)
        file = DiskFiles().open(str(tmp_path / "a"), create=True)
        with pytest.raises(OSError, match="Input/output"):
            file.pread_cached(3, 0)
        file.close()

    def test_answers_do_not_share_memory(self, tmp_path: Path) -> None:
        file = DiskFiles().open(str(tmp_path / "a"), create=True)
        file.pwrite(b"aaaabbbb", 0)
        first = file.pread_cached(4, 0)
        second = file.pread_cached(4, 4)
        assert (first, second) == (b"aaaa", b"bbbb")
        file.close()


def _drop_from_cache(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


_HOLDER = """
import sys
from barnabas.world.files import DiskFiles
lock = DiskFiles().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_holds_between_processes_and_dies_with_its_owner(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyLockedError) as caught:
            DiskFiles().lock(path)
        assert caught.value.filename == path
        owner.kill()
        owner.wait()
    DiskFiles().lock(path).release()


def test_remove_tree_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"x")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    DiskFiles().remove_tree(str(tmp_path / "gone"))
    with pytest.raises(NotADirectoryError):
        DiskFiles().remove_tree(str(tmp_path / "link"))
    assert (tmp_path / "kept" / "file").read_bytes() == b"x"
    assert not (tmp_path / "gone").exists()


def test_relative_names_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    DiskFiles().replace("a", b"abc")
    assert (tmp_path / "a").read_bytes() == b"abc"
