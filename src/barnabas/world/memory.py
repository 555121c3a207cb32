"""Files that live only as long as the process, for `--memory` brokers.

Same promises as a disk, except the one about power. Jobs on other threads may read while the
loop appends, so each file has a lock: a bytearray can not grow while somebody looks into it.
"""

import errno
import os
import threading
from collections.abc import Sequence

from barnabas.ports.files import AlreadyLockedError, Buffer


def _error(number: int, path: str = "") -> OSError:
    """The subclass Python chooses for the errno, with the system's own words."""
    return OSError(number, os.strerror(number), path or None)


class _Content:
    """The bytes of a file, shared by everyone who has it open."""

    __slots__ = ("data", "guard")

    def __init__(self) -> None:
        self.data = bytearray()
        self.guard = threading.Lock()


class _Folder:
    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, _Content | _Folder] = {}


class MemoryFile:
    """One open file in memory."""

    def __init__(self, content: _Content, *, writable: bool) -> None:
        self._content: _Content | None = content
        self._writable = writable

    def _opened(self) -> _Content:
        if self._content is None:
            raise _error(errno.EBADF)
        return self._content

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes at `position`; fewer only at the end of the file."""
        content = self._opened()
        if length < 0 or position < 0:
            raise _error(errno.EINVAL)
        with content.guard, memoryview(content.data) as view:
            return bytes(view[position : position + length])

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """As `pread`: memory never waits."""
        return self.pread(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`."""
        content = self._opened()
        if not self._writable:
            raise _error(errno.EBADF)
        if position < 0:
            raise _error(errno.EINVAL)
        with content.guard:
            held = content.data
            if position == len(held):
                held += data  # one copy; assigning to a slice would make two
            else:
                _overwrite(held, data, position)

    def size(self) -> int:
        """The length of the file now."""
        return len(self._opened().data)

    def truncate(self, length: int) -> None:
        """Cut (or extend with zeros) to `length` bytes."""
        content = self._opened()
        if not self._writable or length < 0:
            raise _error(errno.EINVAL)
        with content.guard:
            _resize(content.data, length)

    def sync(self) -> None:
        """Nothing survives power loss here, and who chose memory knows it."""
        self._opened()

    def moved(self, path: str) -> None:
        """Its name means nothing to an open file."""

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        self._content = None


def _resize(held: bytearray, length: int) -> None:
    if length < len(held):
        del held[length:]
    else:
        held += bytes(length - len(held))


def _overwrite(held: bytearray, data: Buffer, position: int) -> None:
    with memoryview(data).cast("B") as view:
        end = position + view.nbytes
        if view.nbytes and end > len(held):
            _resize(held, end)
        with memoryview(held) as target:
            target[position:end] = view


class MemoryLock:
    """A held lock of one MemoryFiles."""

    def __init__(self, held: set[_Content], content: _Content) -> None:
        self._held = held
        self._content = content
        self._released = False

    def release(self) -> None:
        """Let others have it; a second call does nothing."""
        if not self._released:
            self._released = True
            self._held.discard(self._content)


class MemoryFiles:
    """A file system in memory. "/" always exists; "a", "/a" and "./a" are the same name."""

    def __init__(self) -> None:
        self._root = _Folder()
        self._guard = threading.RLock()
        self._locked: set[_Content] = set()

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Open for reading and writing. `create` makes an empty file where there is none."""
        return MemoryFile(self._content(path, create=create), writable=True)

    def open_read_only(self, path: str) -> MemoryFile:
        """Open for reading; writing raises."""
        return MemoryFile(self._content(path), writable=False)

    def exists(self, path: str) -> bool:
        """Whether a file or folder has that name."""
        try:
            self._find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size_of(self, path: str) -> int:
        """The length of a file that need not be open; 0 for a folder."""
        found = self._find(path)
        return len(found.data) if isinstance(found, _Content) else 0

    def list(self, path: str) -> Sequence[str]:
        """The names in a folder, sorted; files and folders alike."""
        with self._guard:
            return sorted(self._folder(path).entries)

    def make_dirs(self, path: str) -> None:
        """Create a folder and its parents; fine if it exists."""
        with self._guard:
            folder = self._root
            for name in _parts(path):
                below = folder.entries.setdefault(name, _Folder())
                if isinstance(below, _Content):
                    raise _error(errno.EEXIST, path)
                folder = below

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing a file that has it. Atomic."""
        with self._guard:
            moved = self._find(source)
            old_folder, old_name = self._place(source)
            new_folder, new_name = self._place(target)
            if _parts(target)[: len(_parts(source))] == _parts(source) != _parts(target):
                raise _error(errno.EINVAL, target)
            _check_replaceable(moved, new_folder.entries.get(new_name, moved), target)
            del old_folder.entries[old_name]
            new_folder.entries[new_name] = moved

    def remove(self, path: str) -> None:
        """Remove one file. Who has it open keeps it until closed."""
        with self._guard:
            self._content(path)
            folder, name = self._place(path)
            del folder.entries[name]

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it; fine if absent."""
        with self._guard:
            if self.exists(path):
                self._folder(path)
                folder, name = self._place(path)
                del folder.entries[name]

    def sync_dir(self, path: str) -> None:
        """Only checks that the folder is there."""
        self._folder(path)

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        file = self.open_read_only(path)
        return file.pread(file.size(), 0)

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically: whoever has the old one open keeps the old bytes."""
        with self._guard:
            folder, name = self._place(path)
            content = _Content()
            content.data += data
            _check_replaceable(content, folder.entries.get(name, content), path)
            folder.entries[name] = content

    def lock(self, path: str) -> MemoryLock:
        """Take an exclusive lock named by a file, or raise AlreadyLockedError at once."""
        with self._guard:
            content = self._content(path, create=True)
            if content in self._locked:
                raise AlreadyLockedError(errno.EWOULDBLOCK, "already locked", path)
            self._locked.add(content)
            return MemoryLock(self._locked, content)

    def free_bytes(self, path: str) -> int:
        """The machine's memory less what the files hold."""
        with self._guard:
            held = _bytes_below(self._root)
        return max(0, self.total_bytes(path) - held)

    def total_bytes(self, path: str) -> int:
        """The machine's memory."""
        self._find(path)
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def boot(self, path: str) -> str:
        """Nobody asks twice: files and process end together."""
        self._find(path)
        return ""

    def _find(self, path: str) -> _Content | _Folder:
        found: _Content | _Folder = self._root
        for name in _parts(path):
            if isinstance(found, _Content):
                raise _error(errno.ENOTDIR, path)
            below = found.entries.get(name)
            if below is None:
                raise _error(errno.ENOENT, path)
            found = below
        return found

    def _folder(self, path: str) -> _Folder:
        found = self._find(path)
        if isinstance(found, _Content):
            raise _error(errno.ENOTDIR, path)
        return found

    def _place(self, path: str) -> tuple[_Folder, str]:
        """The folder in which `path` is, or would be, a name."""
        parts = _parts(path)
        if not parts:
            raise _error(errno.EBUSY, path)
        return self._folder("/".join(parts[:-1])), parts[-1]

    def _content(self, path: str, *, create: bool = False) -> _Content:
        with self._guard:
            if create and not self.exists(path):
                folder, name = self._place(path)
                folder.entries[name] = _Content()
            found = self._find(path)
        if isinstance(found, _Folder):
            raise _error(errno.EISDIR, path)
        return found


def _parts(path: str) -> Sequence[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _check_replaceable(moved: _Content | _Folder, there: _Content | _Folder, path: str) -> None:
    """What a rename may put its source over, as POSIX has it."""
    if moved is there:
        return
    if isinstance(moved, _Content):
        if isinstance(there, _Folder):
            raise _error(errno.EISDIR, path)
    elif isinstance(there, _Content):
        raise _error(errno.ENOTDIR, path)
    elif there.entries:
        raise _error(errno.ENOTEMPTY, path)


def _bytes_below(folder: _Folder) -> int:
    return sum(
        len(entry.data) if isinstance(entry, _Content) else _bytes_below(entry)
        for entry in folder.entries.values()
    )
