"""A disk that loses power, from one seed.

The model, which is what Linux with ext4 or XFS on an honest device may do, at its worst:

A write goes to the page cache. The program, and any later one on the same boot, sees it at once.
Only `sync` brings a file's bytes and length to the medium; only `sync_dir` brings the names of a
folder there. A synced file whose name was never synced is lost with its name. So is everything
in a new folder until the folder's own name is synced in its parent.

`crash()` is power loss. Whatever was synced and not touched since is there. A file with unsynced
writes is one of: as at the last sync; complete; cut anywhere between the two lengths; torn (each
512-byte sector new, or old, or zeros where nothing was); or at full length with zeros for all
that was appended. A sector overwritten in place is old or new, never mixed. A truncation that was
not synced may be undone. There is never garbage: no byte that was not written here.
Names: changes that share a name happened in their order or not at all from some point on; others
are independent of each other. A rename is atomic, so the old or the new name is there, and never
both or none. A removed file may be back.

`kill()` ends the process only: all that was written stays. Open files and locks are gone. After
either, old handles (and the old SimFiles) raise PowerLostError, and the returned one is in force.

Faults, by probability (`faults.chances`) or by order (`faults.fail_next`):
read: EIO. write: ENOSPC after part of the data; also when `disk_bytes_max` is reached.
sync: EIO, and then the pages count as clean: the program still sees them, a later sync succeeds
without them, and power loss may take them, unless they are written again. sync_dir: EIO, and the
names stay unsynced. `flip_bit` is rot: one bit of a file changes on the medium and in the cache.
`lose_power_after(n)` makes the n-th change from now the last, half done where it can be half done.
Not modelled: memory-mapped files, reordering by a device that lies about flushes, bad metadata.
"""

import errno
import os
import random
from collections.abc import Sequence

from barnabas.ports.files import AlreadyLockedError, Buffer
from barnabas.sim.disk import Disk, Folder, Inode
from barnabas.sim.faults import ERRNO, Chances, FaultKind, Faults, PowerLostError
from barnabas.sim.trace import Trace

_UNLIMITED_FREE_BYTES = 1 << 40


def _error(number: int, path: str) -> OSError:
    """The subclass Python chooses for the errno, with the system's own words."""
    return OSError(number, os.strerror(number), path)


class _Machine:
    """What one boot or one process shares: is it alive, what may fail, what is the disk."""

    def __init__(
        self,
        disk: Disk,
        chance: random.Random,
        faults: Faults,
        trace: Trace,
        disk_bytes_max: int | None,
    ) -> None:
        self.disk = disk
        self.random = chance
        self.faults = faults
        self.trace = trace
        self.disk_bytes_max = disk_bytes_max
        self.alive = True
        self.changes_left: int | None = None
        self.locked: set[Inode] = set()

    def begin(self, what: str, path: str) -> None:
        """Every call starts here."""
        if not self.alive:
            raise PowerLostError
        self.trace.note(f"{what} {path}")

    def fail_if_struck(self, kind: FaultKind, path: str) -> None:
        if self.faults.strikes(kind, path):
            raise _error(ERRNO[kind], path)

    def is_last_change(self) -> bool:
        """Whether the power goes during this change."""
        if self.changes_left is None:
            return False
        self.changes_left -= 1
        return self.changes_left <= 0

    def go_down(self) -> None:
        self.alive = False
        raise PowerLostError

    def room(self) -> int:
        if self.disk_bytes_max is None:
            return _UNLIMITED_FREE_BYTES
        return max(0, self.disk_bytes_max - self.disk.used_bytes())


class SimFile:
    """One open file of one process."""

    def __init__(self, machine: _Machine, inode: Inode, path: str, *, writable: bool) -> None:
        self._machine = machine
        self._inode = inode
        self._path = path
        self._writable = writable
        self._closed = False

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes at `position`; fewer only at the end of the file."""
        self._begin("pread")
        if length < 0 or position < 0:
            raise _error(errno.EINVAL, self._path)
        self._machine.fail_if_struck("read", self._path)
        return bytes(self._inode.seen[position : position + length])

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """As `pread`, or None, when the seed says that the bytes are cold."""
        self._begin("pread_cached")
        return None if self._machine.faults.is_cold() else self.pread(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`, or raise after part of it."""
        self._begin("pwrite")
        if not self._writable:
            raise _error(errno.EBADF, self._path)
        if position < 0:
            raise _error(errno.EINVAL, self._path)
        with memoryview(data).cast("B") as view:
            whole = view.nbytes
            fits = self._fitting(position, whole)
            if whole and self._machine.faults.strikes("write", self._path):
                fits = min(fits, self._machine.random.randrange(whole))
            last = self._machine.is_last_change()
            if last:
                fits = self._machine.random.randint(0, fits)
            self._inode.write(view[:fits], position)
        if last:
            self._machine.go_down()
        if fits < whole:
            raise _error(ERRNO["write"], self._path)

    def size(self) -> int:
        """The length of the file now."""
        self._begin("size")
        return len(self._inode.seen)

    def truncate(self, length: int) -> None:
        """Cut (or extend with zeros) to `length` bytes."""
        self._begin(f"truncate {length}")
        if not self._writable or length < 0:
            raise _error(errno.EINVAL, self._path)
        if self._machine.is_last_change():
            self._machine.go_down()
        self._inode.truncate(length)

    def sync(self) -> None:
        """Return once every byte written so far would survive power loss."""
        self._begin("sync")
        if self._machine.is_last_change():
            self._machine.go_down()
        if self._machine.faults.strikes("sync", self._path):
            self._inode.fail_sync()
            raise _error(errno.EIO, self._path)
        self._inode.sync()

    def moved(self, path: str) -> None:
        """The name that faults are aimed at."""
        self._path = path

    def close(self) -> None:
        """Release the file. Does not sync; a second call does nothing."""
        self._closed = True

    def _begin(self, what: str) -> None:
        self._machine.begin(what, self._path)
        if self._closed:
            raise _error(errno.EBADF, self._path)

    def _fitting(self, position: int, length: int) -> int:
        """How much of a write the disk has room for: what overwrites needs none."""
        growth = position + length - len(self._inode.seen)
        if growth <= 0 or self._machine.disk_bytes_max is None:
            return length
        return max(0, length - max(0, growth - self._machine.room()))


class SimLock:
    """A held lock of one process."""

    def __init__(self, machine: _Machine, inode: Inode) -> None:
        self._machine = machine
        self._inode = inode
        self._released = False

    def release(self) -> None:
        """Let others have it; a second call does nothing."""
        if not self._released:
            self._released = True
            self._machine.locked.discard(self._inode)


class SimFiles:
    """A simulated file system. "/" always exists; "a", "/a" and "./a" are the same name."""

    def __init__(
        self,
        seed: int | str,
        *,
        chances: Chances | None = None,
        disk_bytes_max: int | None = None,
        trace: Trace | None = None,
    ) -> None:
        chance = random.Random(f"{seed}/files")
        faults = Faults(random.Random(f"{seed}/faults"), chances or Chances())
        self._machine = _Machine(Disk(), chance, faults, trace or Trace(), disk_bytes_max)

    # What a simulation does to the disk.

    @property
    def faults(self) -> Faults:
        """What may fail."""
        return self._machine.faults

    @property
    def trace(self) -> Trace:
        """Every call so far."""
        return self._machine.trace

    @property
    def disk_bytes_max(self) -> int | None:
        """Where the disk is full; None: never."""
        return self._machine.disk_bytes_max

    @disk_bytes_max.setter
    def disk_bytes_max(self, limit: int | None) -> None:
        self._machine.disk_bytes_max = limit

    def crash(self) -> "SimFiles":
        """Power loss: the disk as the next boot finds it."""
        self._machine.trace.note("crash")
        self._machine.disk.lose_power(self._machine.random)
        return self._successor()

    def kill(self) -> "SimFiles":
        """The process dies: the disk as the next process finds it."""
        self._machine.trace.note("kill")
        return self._successor()

    def lose_power_after(self, changes: int) -> None:
        """The `changes`-th write, sync, truncation or change of names from now does not return.

        It raises PowerLostError, as does all that follows; then call `crash()`.
        """
        self._machine.changes_left = changes

    def flip_bit(self, path: str, chance: random.Random | None = None) -> int:
        """Rot: change one bit of a file that is not empty, and say at which byte."""
        chance = chance or self._machine.random
        inode = self._inode(path)
        position = chance.randrange(len(inode.seen))
        inode.flip_bit(position, chance.randrange(8))
        return position

    def peek(self, path: str) -> bytearray:
        """What a file holds, without anybody noticing that it was read: for invariants."""
        found = self._find(path)
        if isinstance(found, Folder):
            raise _error(errno.EISDIR, path)
        return found.seen

    def _successor(self) -> "SimFiles":
        old = self._machine
        old.alive = False
        after = SimFiles.__new__(SimFiles)
        after._machine = _Machine(old.disk, old.random, old.faults, old.trace, old.disk_bytes_max)
        return after

    # The port.

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """Open for reading and writing. `create` makes an empty file where there is none."""
        self._machine.begin("open", path)
        return SimFile(self._machine, self._inode(path, create=create), path, writable=True)

    def open_read_only(self, path: str) -> SimFile:
        """Open for reading; writing raises."""
        self._machine.begin("open_read_only", path)
        return SimFile(self._machine, self._inode(path), path, writable=False)

    def exists(self, path: str) -> bool:
        """Whether a file or folder has that name."""
        self._machine.begin("exists", path)
        return self._is_there(path)

    def size_of(self, path: str) -> int:
        """The length of a file that need not be open; 0 for a folder."""
        self._machine.begin("size_of", path)
        found = self._find(path)
        return len(found.seen) if isinstance(found, Inode) else 0

    def list(self, path: str) -> Sequence[str]:
        """The names in a folder, sorted; files and folders alike."""
        self._machine.begin("list", path)
        return sorted(self._folder(path).seen)

    def make_dirs(self, path: str) -> None:
        """Create a folder and its parents; fine if it exists."""
        self._machine.begin("make_dirs", path)
        folder = self._machine.disk.root
        for name in _parts(path):
            below = folder.seen.get(name)
            if isinstance(below, Inode):
                raise _error(errno.EEXIST, path)
            if below is None:
                below = Folder()
                self._change((folder, name, below))
            folder = below

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing a file that has it. Atomic."""
        self._machine.begin(f"rename {source}", target)
        moved = self._find(source)
        old_folder, old_name = self._place(source)
        new_folder, new_name = self._place(target)
        if _parts(source) == _parts(target):
            return
        if _parts(target)[: len(_parts(source))] == _parts(source):
            raise _error(errno.EINVAL, target)
        _check_replaceable(moved, new_folder.seen.get(new_name), target)
        self._change((old_folder, old_name, None), (new_folder, new_name, moved))

    def remove(self, path: str) -> None:
        """Remove one file. Who has it open keeps it until closed."""
        self._machine.begin("remove", path)
        self._inode(path)
        folder, name = self._place(path)
        self._change((folder, name, None))

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it, name by name; fine if absent."""
        self._machine.begin("remove_tree", path)
        if self._is_there(path):
            self._empty(self._folder(path))
            folder, name = self._place(path)
            self._change((folder, name, None))

    def sync_dir(self, path: str) -> None:
        """Make the names in a folder (created, renamed, removed) survive power loss."""
        self._machine.begin("sync_dir", path)
        folder = self._folder(path)
        if self._machine.is_last_change():
            self._machine.go_down()
        self._machine.fail_if_struck("sync_dir", path)
        self._machine.disk.sync_names(folder)

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        file = self.open_read_only(path)
        return file.pread(file.size(), 0)

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically and durably: temporary file, sync, rename, sync_dir."""
        temporary = path + ".tmp"
        try:
            file = self.open(temporary, create=True)
            file.truncate(0)
            file.pwrite(data, 0)
            file.sync()
            file.close()
            self.rename(temporary, path)
        except OSError:
            if self._machine.alive and self._is_there(temporary):
                self.remove(temporary)
            raise
        self.sync_dir("/".join(_parts(path)[:-1]))

    def lock(self, path: str) -> SimLock:
        """Take an exclusive lock named by a file, or raise AlreadyLockedError at once."""
        self._machine.begin("lock", path)
        inode = self._inode(path, create=True)
        if inode in self._machine.locked:
            raise AlreadyLockedError(errno.EWOULDBLOCK, "already locked", path)
        self._machine.locked.add(inode)
        return SimLock(self._machine, inode)

    def free_bytes(self, path: str) -> int:
        """Room left on the disk."""
        self._machine.begin("free_bytes", path)
        self._find(path)
        return self._machine.room()

    def total_bytes(self, path: str) -> int:
        """Room on the disk."""
        self._machine.begin("total_bytes", path)
        self._find(path)
        return self._machine.disk_bytes_max or _UNLIMITED_FREE_BYTES

    def boot(self, path: str) -> str:
        """Another one after each power loss."""
        self._machine.begin("boot", path)
        self._find(path)
        return f"boot {self._machine.disk.power_losses}"

    # Names.

    def _change(self, *settings: tuple[Folder, str, Inode | Folder | None]) -> None:
        last = self._machine.is_last_change()
        self._machine.disk.change(*settings)
        if last:
            self._machine.go_down()

    def _empty(self, folder: Folder) -> None:
        for name, entry in sorted(folder.seen.items()):
            if isinstance(entry, Folder):
                self._empty(entry)
            self._change((folder, name, None))

    def _is_there(self, path: str) -> bool:
        try:
            self._find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _find(self, path: str) -> Inode | Folder:
        found: Inode | Folder = self._machine.disk.root
        for name in _parts(path):
            if isinstance(found, Inode):
                raise _error(errno.ENOTDIR, path)
            below = found.seen.get(name)
            if below is None:
                raise _error(errno.ENOENT, path)
            found = below
        return found

    def _folder(self, path: str) -> Folder:
        found = self._find(path)
        if isinstance(found, Inode):
            raise _error(errno.ENOTDIR, path)
        return found

    def _place(self, path: str) -> tuple[Folder, str]:
        """The folder in which `path` is, or would be, a name."""
        parts = _parts(path)
        if not parts:
            raise _error(errno.EBUSY, path)
        return self._folder("/".join(parts[:-1])), parts[-1]

    def _inode(self, path: str, *, create: bool = False) -> Inode:
        if create and not self._is_there(path):
            folder, name = self._place(path)
            self._change((folder, name, Inode()))
        found = self._find(path)
        if isinstance(found, Folder):
            raise _error(errno.EISDIR, path)
        return found


def _parts(path: str) -> Sequence[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _check_replaceable(moved: Inode | Folder, there: Inode | Folder | None, path: str) -> None:
    """What a rename may put its source over, as POSIX has it."""
    if there is None:
        return
    if isinstance(moved, Inode):
        if isinstance(there, Folder):
            raise _error(errno.EISDIR, path)
    elif isinstance(there, Inode):
        raise _error(errno.ENOTDIR, path)
    elif there.seen:
        raise _error(errno.ENOTEMPTY, path)
