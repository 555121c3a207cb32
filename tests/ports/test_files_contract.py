"""What every file system promises, whichever it is."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.ports.files import AlreadyLockedError, Files
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.world.files import DiskFiles
from barnabas.world.memory import MemoryFiles


class Place:
    """A file system and a folder in it."""

    def __init__(self, files: Files, folder: str) -> None:
        self.files = files
        self.folder = folder
        files.make_dirs(folder)

    def __call__(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def put(self, name: str, data: bytes = b"") -> str:
        path = self(name)
        file = self.files.open(path, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.close()
        return path


MAKERS: dict[str, Callable[[Path], Place]] = {
    "disk": lambda tmp: Place(DiskFiles(), str(tmp / "place")),
    "memory": lambda _: Place(MemoryFiles(), "/data/place"),
    "sim": lambda _: Place(SimFiles(1), "/data/place"),
    "sim-cold": lambda _: Place(SimFiles(2, chances=Chances(cold=0.9)), "/data/place"),
}


@pytest.fixture(params=sorted(MAKERS))
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return MAKERS[request.param](tmp_path)


class TestFile:
    def test_reads_back_what_was_written(self, at: Place) -> None:
        file = at.files.open(at("a"), create=True)
        file.pwrite(b"hello ", 0)
        file.pwrite(bytearray(b"wor"), 6)
        file.pwrite(memoryview(b"__ld__")[2:4], 9)
        assert file.pread(100, 0) == b"hello world"
        assert file.pread(3, 4) == b"o w"
        assert file.size() == 11

    def test_pread_gives_less_only_at_the_end(self, at: Place) -> None:
        file = at.files.open(at.put("a", b"0123456789"))
        assert file.pread(10, 0) == b"0123456789"
        assert file.pread(10, 8) == b"89"
        assert file.pread(1, 10) == b""
        assert file.pread(1, 1000) == b""
        assert file.pread(0, 3) == b""

    def test_pread_of_several_megabytes_is_whole(self, at: Place) -> None:
        data = bytes(range(256)) * 4096 * 5
        file = at.files.open(at.put("a", data))
        assert file.pread(len(data), 0) == data
        assert file.pread(len(data) * 2, 7) == data[7:]

    def test_pread_cached_is_pread_or_none(self, at: Place) -> None:
        file = at.files.open(at.put("a", bytes(range(200))))
        for length, position in [(10, 0), (50, 190), (500, 0), (5, 200), (5, 999), (0, 0)] * 3:
            answer = file.pread_cached(length, position)
            assert answer is None or answer == file.pread(length, position)

    def test_a_read_is_not_changed_by_a_later_write(self, at: Place) -> None:
        file = at.files.open(at.put("a", b"old old"))
        before = file.pread(7, 0)
        file.pwrite(b"NEW", 0)
        assert before == b"old old"
        assert file.pread(7, 0) == b"NEW old"

    def test_overwriting_past_the_end_grows(self, at: Place) -> None:
        file = at.files.open(at.put("a", b"abcdef"))
        file.pwrite(b"XYZXYZ", 4)
        assert file.pread(99, 0) == b"abcdXYZXYZ"

    def test_a_gap_reads_as_zeros(self, at: Place) -> None:
        file = at.files.open(at("a"), create=True)
        file.pwrite(b"x", 5000)
        assert file.pread(9999, 0) == bytes(5000) + b"x"

    def test_writing_nothing_changes_nothing(self, at: Place) -> None:
        file = at.files.open(at.put("a", b"abc"))
        file.pwrite(b"", 100)
        assert file.size() == 3

    def test_truncate_cuts_and_extends(self, at: Place) -> None:
        file = at.files.open(at.put("a", b"abcdef"))
        file.truncate(2)
        assert file.pread(99, 0) == b"ab"
        file.truncate(4)
        assert file.pread(99, 0) == b"ab\0\0"

    def test_two_handles_see_the_same_file(self, at: Place) -> None:
        writer = at.files.open(at("a"), create=True)
        reader = at.files.open_read_only(at("a"))
        writer.pwrite(b"abc", 0)
        assert reader.pread(9, 0) == b"abc"
        assert reader.size() == 3

    def test_sync_keeps_the_content(self, at: Place) -> None:
        file = at.files.open(at("a"), create=True)
        file.pwrite(b"abc", 0)
        file.sync()
        assert file.pread(9, 0) == b"abc"

    def test_read_only_can_not_be_changed(self, at: Place) -> None:
        file = at.files.open_read_only(at.put("a", b"abc"))
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.pwrite(b"X", 0)
        with pytest.raises(OSError, match="Invalid argument"):
            file.truncate(0)
        assert at.files.read(at("a")) == b"abc"

    def test_after_close_everything_raises(self, at: Place) -> None:
        file = at.files.open(at.put("a", b"abc"))
        file.close()
        file.close()
        calls: list[Callable[[], object]] = [
            lambda: file.pread(1, 0),
            lambda: file.pread_cached(1, 0),
            lambda: file.pwrite(b"x", 0),
            file.size,
            file.sync,
        ]
        for call in calls:
            with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what counts
                call()
            assert caught.value.errno == errno.EBADF

    def test_negative_positions_are_refused(self, at: Place) -> None:
        file = at.files.open(at.put("a", b"abc"))
        for call in (lambda: file.pread(1, -1), lambda: file.pwrite(b"x", -1)):
            with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what counts
                call()
            assert caught.value.errno == errno.EINVAL

    def test_a_removed_file_lives_while_open(self, at: Place) -> None:
        file = at.files.open(at.put("a", b"abc"))
        at.files.remove(at("a"))
        file.pwrite(b"def", 3)
        assert file.pread(9, 0) == b"abcdef"
        assert not at.files.exists(at("a"))


class TestNames:
    def test_open_needs_the_file_unless_creating(self, at: Place) -> None:
        with pytest.raises(FileNotFoundError):
            at.files.open(at("a"))
        with pytest.raises(FileNotFoundError):
            at.files.open_read_only(at("a"))
        at.files.open(at("a"), create=True).pwrite(b"abc", 0)
        assert at.files.open(at("a"), create=True).size() == 3

    def test_create_needs_the_folder(self, at: Place) -> None:
        with pytest.raises(FileNotFoundError):
            at.files.open(at("no/a"), create=True)
        at.put("file")
        with pytest.raises(NotADirectoryError):
            at.files.open(at("file/a"), create=True)

    def test_a_folder_is_no_file(self, at: Place) -> None:
        at.files.make_dirs(at("d"))
        with pytest.raises(IsADirectoryError):
            at.files.open(at("d"))
        with pytest.raises(IsADirectoryError):
            at.files.open_read_only(at("d"))
        with pytest.raises(IsADirectoryError):
            at.files.read(at("d"))
        with pytest.raises(IsADirectoryError):
            at.files.remove(at("d"))

    def test_exists(self, at: Place) -> None:
        at.put("a")
        at.files.make_dirs(at("d/e"))
        assert at.files.exists(at("a"))
        assert at.files.exists(at("d"))
        assert at.files.exists(at("d/e"))
        assert not at.files.exists(at("b"))
        assert not at.files.exists(at("a/b"))
        assert not at.files.exists(at("x/y"))

    def test_size_of(self, at: Place) -> None:
        assert at.files.size_of(at.put("a", b"12345")) == 5
        with pytest.raises(FileNotFoundError):
            at.files.size_of(at("b"))

    def test_list_is_sorted(self, at: Place) -> None:
        for name in ("b", "a", "c.log", "B"):
            at.put(name)
        at.files.make_dirs(at("aa/below"))
        assert list(at.files.list(at.folder)) == ["B", "a", "aa", "b", "c.log"]
        with pytest.raises(FileNotFoundError):
            at.files.list(at("no"))
        with pytest.raises(NotADirectoryError):
            at.files.list(at("a"))

    def test_make_dirs_twice_is_fine_but_not_over_a_file(self, at: Place) -> None:
        at.files.make_dirs(at("d/e/f"))
        at.put("d/e/f/kept")
        at.files.make_dirs(at("d/e/f"))
        assert list(at.files.list(at("d/e/f"))) == ["kept"]
        with pytest.raises(FileExistsError):
            at.files.make_dirs(at("d/e/f/kept"))

    def test_rename_replaces_a_file(self, at: Place) -> None:
        at.put("a", b"new")
        at.put("b", b"old")
        held = at.files.open(at("b"))
        at.files.rename(at("a"), at("b"))
        assert list(at.files.list(at.folder)) == ["b"]
        assert at.files.read(at("b")) == b"new"
        assert held.pread(9, 0) == b"old"

    def test_rename_moves_a_folder_with_all_in_it(self, at: Place) -> None:
        at.files.make_dirs(at("d"))
        held = at.files.open(at.put("d/a", b"abc"))
        at.files.rename(at("d"), at("d2"))
        held.pwrite(b"def", 3)
        assert at.files.read(at("d2/a")) == b"abcdef"
        assert not at.files.exists(at("d"))

    def test_rename_to_itself_changes_nothing(self, at: Place) -> None:
        at.put("a", b"abc")
        at.files.rename(at("a"), at("a"))
        assert at.files.read(at("a")) == b"abc"

    def test_rename_refuses_what_posix_refuses(self, at: Place) -> None:
        at.put("a")
        at.files.make_dirs(at("d"))
        at.files.make_dirs(at("full"))
        at.put("full/x")
        with pytest.raises(FileNotFoundError):
            at.files.rename(at("no"), at("b"))
        with pytest.raises(FileNotFoundError):
            at.files.rename(at("a"), at("no/b"))
        with pytest.raises(IsADirectoryError):
            at.files.rename(at("a"), at("d"))
        with pytest.raises(NotADirectoryError):
            at.files.rename(at("d"), at("a"))
        for target, expected in (("full", errno.ENOTEMPTY), ("d/below", errno.EINVAL)):
            with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what counts
                at.files.rename(at("d"), at(target))
            assert caught.value.errno == expected
        assert list(at.files.list(at.folder)) == ["a", "d", "full"]

    def test_remove(self, at: Place) -> None:
        at.files.remove(at.put("a"))
        assert not at.files.exists(at("a"))
        with pytest.raises(FileNotFoundError):
            at.files.remove(at("a"))

    def test_remove_tree(self, at: Place) -> None:
        at.files.make_dirs(at("d/e/f"))
        at.put("d/x")
        at.put("d/e/f/y")
        at.put("kept")
        at.files.remove_tree(at("d"))
        at.files.remove_tree(at("d"))
        assert list(at.files.list(at.folder)) == ["kept"]
        with pytest.raises(NotADirectoryError):
            at.files.remove_tree(at("kept"))

    def test_sync_dir_needs_a_folder(self, at: Place) -> None:
        at.files.sync_dir(at.folder)
        with pytest.raises(FileNotFoundError):
            at.files.sync_dir(at("no"))
        with pytest.raises(NotADirectoryError):
            at.files.sync_dir(at.put("a"))


class TestWholeFiles:
    def test_replace_makes_and_replaces(self, at: Place) -> None:
        at.files.replace(at("a"), b"one, and longer")
        assert at.files.read(at("a")) == b"one, and longer"
        held = at.files.open(at("a"))
        at.files.replace(at("a"), b"two")
        assert at.files.read(at("a")) == b"two"
        assert held.pread(99, 0) == b"one, and longer"
        assert list(at.files.list(at.folder)) == ["a"]

    def test_replace_over_what_an_interrupted_one_left(self, at: Place) -> None:
        at.put("a.tmp", b"left by an earlier attempt, and long")
        at.files.replace(at("a"), b"new")
        assert at.files.read(at("a")) == b"new"

    def test_replace_needs_the_folder(self, at: Place) -> None:
        with pytest.raises(FileNotFoundError):
            at.files.replace(at("no/a"), b"x")

    def test_replace_of_a_folder_leaves_nothing_behind(self, at: Place) -> None:
        at.files.make_dirs(at("d/e"))
        with pytest.raises(IsADirectoryError):
            at.files.replace(at("d/e"), b"x")
        assert list(at.files.list(at("d"))) == ["e"]

    def test_read_needs_the_file(self, at: Place) -> None:
        with pytest.raises(FileNotFoundError):
            at.files.read(at("a"))

    def test_free_bytes(self, at: Place) -> None:
        assert at.files.free_bytes(at.folder) > 0
        with pytest.raises(FileNotFoundError):
            at.files.free_bytes(at("no"))

    def test_total_bytes(self, at: Place) -> None:
        assert at.files.total_bytes(at.folder) >= at.files.free_bytes(at.folder)
        with pytest.raises(FileNotFoundError):
            at.files.total_bytes(at("no"))

    def test_boot_stays_the_same(self, at: Place) -> None:
        assert at.files.boot(at.folder) == at.files.boot(at.folder)


class TestLock:
    def test_only_one_holder(self, at: Place) -> None:
        lock = at.files.lock(at(".lock"))
        with pytest.raises(AlreadyLockedError):
            at.files.lock(at(".lock"))
        other = at.files.lock(at(".other"))
        lock.release()
        again = at.files.lock(at(".lock"))
        with pytest.raises(AlreadyLockedError):
            at.files.lock(at(".other"))
        other.release()
        again.release()

    def test_releasing_twice_does_not_free_the_next_holder(self, at: Place) -> None:
        first = at.files.lock(at(".lock"))
        first.release()
        second = at.files.lock(at(".lock"))
        first.release()
        with pytest.raises(AlreadyLockedError):
            at.files.lock(at(".lock"))
        second.release()

    def test_a_lock_needs_its_folder(self, at: Place) -> None:
        with pytest.raises(FileNotFoundError):
            at.files.lock(at("no/.lock"))
