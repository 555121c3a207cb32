"""Files on the machine's own disk."""

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Sequence
from typing import Final

from barnabas.ports.files import AlreadyLockedError, Buffer
from barnabas.world.buffers import WarmBuffers
from barnabas.world.descriptors import (
    CLOSED,
    OPEN_MAX,
    PARKED,
    Descriptor,
    DescriptorKeeper,
)

_MODE: Final = 0o644
_SMALL_BYTES: Final = 64 * 1024
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_RWF_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)


def _sync_descriptor(descriptor: int) -> None:
    """Push written bytes to stable storage.

    fdatasync is enough: it leaves out only what is not needed to read the data back (the times).
    A changed size is needed, and so is synced with the data of an append.
    """
    if sys.platform == "darwin":
        # There fsync stops at the drive's volatile cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


class DiskFile:
    """One open file. After `close` everything raises EBADF.

    Its descriptor may be taken away while it is not used, and is then had again by its name.
    """

    __slots__ = (
        "_buffers",
        "_flags",
        "_keeper",
        "_nowait",
        "_path",
        "_path_before",
        "_synced",
        "_writes_begun",
        "_writes_done",
        "descriptor",
        "failure",
        "inode",
        "syncs_running",
        "used",
    )

    def __init__(
        self, path: str, flags: int, keeper: DescriptorKeeper, buffers: WarmBuffers
    ) -> None:
        self._path = self._path_before = path
        self._flags = flags
        self._keeper = keeper
        self._buffers = buffers
        self._nowait = _RWF_NOWAIT
        self.failure: OSError | None = None
        self._writes_begun = self._writes_done = self._synced = 0
        """Only one thread writes at a time; what a sync covers is what was done when it began."""
        self.descriptor: int = CLOSED
        self.used = True
        self.syncs_running = 0
        self.inode = 0
        keeper.admit(self)
        self._flags &= ~(os.O_CREAT | os.O_TRUNC)

    @property
    def unsynced(self) -> bool:
        """Whether bytes were written, or are being written, that no sync has covered."""
        return self._writes_begun != self._synced

    def open_anew(self) -> Descriptor:
        """Open the file by its name, or by the one it had before while it is about to change."""
        for name in (self._path, self._path_before):
            with contextlib.suppress(FileNotFoundError):
                found = Descriptor(os.open(name, self._flags, _MODE))
                # Until it has that name, another file may.
                if not self.inode or os.fstat(found).st_ino == self.inode:
                    return found
        # It may have been renamed between the two.
        return Descriptor(os.open(self._path, self._flags, _MODE))

    def moved(self, path: str) -> None:
        """The file is about to get another name, by which it is to be known from now on."""
        self._path_before = self._path
        self._path = path

    def _again(self, error: OSError) -> int:
        """The descriptor to try once more with, after one that was not there."""
        if error.errno != errno.EBADF:
            raise error
        return self._keeper.reopen(self)

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes at `position`; fewer only at the end of the file."""
        data = self._pread_once(length, position)
        if len(data) == length or not data:
            return data
        # The end of the file, a signal, or the 2 GiB the system gives at once: ask until empty.
        parts = [data]
        got = len(data)
        while got < length and (data := self._pread_once(length - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def _pread_once(self, length: int, position: int) -> bytes:
        self.used = True
        try:
            return os.pread(self.descriptor, length, position)
        except OSError as error:
            return os.pread(self._again(error), length, position)

    def pread_cached(self, length: int, position: int) -> bytes | memoryview | None:
        """As `pread`, or None when that would have to wait for the disk."""
        if self._nowait is None:
            return self.pread(length, position)
        self.used = True
        view, descriptor = self._buffers.take(length), self.descriptor
        try:
            got = os.preadv(descriptor, [view], position, self._nowait)
        except BlockingIOError:
            return None
        except OSError as error:
            if descriptor == PARKED:
                return None  # Opening it may have to wait, for the folders on the way to it.
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            # Some file systems (overlay, older tmpfs) can not tell whether they would wait.
            self._nowait = None
            return self.pread(length, position)
        if got == length:
            return view
        return view[:got] if position + got >= self.size() else None

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`, or raise."""
        self.used = True
        self._writes_begun += 1
        try:
            written = os.pwrite(self.descriptor, data, position)
        except OSError as error:
            written = os.pwrite(self._again(error), data, position)
        if written != len(data):
            self._pwrite_rest(data, position, written)
        self._writes_done = self._writes_begun

    def _pwrite_rest(self, data: Buffer, position: int, written: int) -> None:
        with memoryview(data).cast("B") as view:
            # On a full disk the first write is short and only the next one says ENOSPC.
            while written < view.nbytes:
                more = os.pwrite(self.descriptor, view[written:], position + written)
                if not more:
                    raise OSError(errno.EIO, "the disk took no byte and gave no error")
                written += more

    def size(self) -> int:
        """The length of the file now."""
        try:
            return os.fstat(self.descriptor).st_size
        except OSError as error:
            return os.fstat(self._again(error)).st_size

    def truncate(self, length: int) -> None:
        """Cut (or extend with zeros) to `length` bytes."""
        self.used = True
        self._writes_begun += 1
        try:
            os.ftruncate(self.descriptor, length)
        except OSError as error:
            os.ftruncate(self._again(error), length)
        self._writes_done = self._writes_begun

    def sync(self) -> None:
        """Return once every byte written so far would survive power loss.

        When this raises, the bytes may be lost although a second call would succeed: Linux
        marks pages clean after a failed write-back. So it raises for ever after.
        """
        with self._keeper.lock:
            if self.failure is not None:
                raise self.failure
            descriptor, covered = self.descriptor, self._writes_done
            if descriptor == PARKED:
                return
            self.syncs_running += 1
        try:
            _sync_descriptor(descriptor)
        except OSError as error:
            self.failure = error
            raise
        finally:
            with self._keeper.lock:
                self.syncs_running -= 1
        self._synced = max(self._synced, covered)

    def close(self) -> None:
        """Release the file. Does not sync; a second call does nothing."""
        self._keeper.release(self)


class DiskLock:
    """A held flock."""

    _held: Final[set[tuple[int, int]]] = set()
    """Device and inode of every lock of this process: where flock is built from record locks
    (NFS), a second lock by the same process would be granted."""

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _MODE)
        try:
            status = os.fstat(descriptor)
            self._identity = (status.st_dev, status.st_ino)
            if self._identity in self._held:
                raise BlockingIOError(errno.EWOULDBLOCK, "held by this process")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise AlreadyLockedError(errno.EWOULDBLOCK, "already locked", path) from error
        except BaseException:
            os.close(descriptor)
            raise
        self._held.add(self._identity)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others have it. The file stays: removing it would race with the next owner."""
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor == CLOSED:
            return
        self._held.discard(self._identity)
        try:
            # Explicitly, because a forked child would keep the lock alive past our close.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)


class DiskFiles:
    """The machine's file system, for one broker."""

    def __init__(self, open_max: int = OPEN_MAX) -> None:
        """At most `open_max` descriptors are kept for open files, however many those are."""
        self._buffers = WarmBuffers()
        self.descriptors = DescriptorKeeper(open_max)

    def __reduce__(self) -> "tuple[type[DiskFiles], tuple[()]]":
        # Another process sees the same disk, with descriptors of its own.
        return DiskFiles, ()

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing. `create` makes an empty file where there is none."""
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return DiskFile(path, flags, self.descriptors, self._buffers)

    def open_read_only(self, path: str) -> DiskFile:
        """Open for reading; writing raises."""
        file = DiskFile(path, os.O_RDONLY, self.descriptors, self._buffers)
        if stat.S_ISDIR(os.fstat(file.descriptor).st_mode):
            file.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return file

    def exists(self, path: str) -> bool:
        """Whether a file or folder has that name."""
        return os.path.exists(path)

    def size_of(self, path: str) -> int:
        """The length of a file that need not be open."""
        return os.stat(path).st_size

    def list(self, path: str) -> Sequence[str]:
        """The names in a folder, sorted; files and folders alike."""
        return sorted(os.listdir(path))

    def make_dirs(self, path: str) -> None:
        """Create a folder and its parents; fine if it exists."""
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing a file that has it. Atomic."""
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove one file."""
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it; fine if absent."""
        if os.path.islink(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        with contextlib.suppress(FileNotFoundError):
            _remove_folder(path)

    def sync_dir(self, path: str) -> None:
        """Make the names in a folder (created, renamed, removed) survive power loss."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            parts = [os.read(descriptor, _SMALL_BYTES)]
            while len(parts[-1]) == _SMALL_BYTES:
                parts.append(os.read(descriptor, _SMALL_BYTES))
        finally:
            os.close(descriptor)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically and durably: temporary file, sync, rename, sync_dir."""
        temporary = path + ".tmp"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
            file = DiskFile(temporary, flags, self.descriptors, self._buffers)
            try:
                file.pwrite(data, 0)
                file.sync()
            finally:
                file.close()
            os.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                os.remove(temporary)
            raise
        self.sync_dir(os.path.dirname(path) or ".")

    def lock(self, path: str) -> DiskLock:
        """Take an exclusive lock named by a file, or raise AlreadyLockedError at once."""
        return DiskLock(path)

    def free_bytes(self, path: str) -> int:
        """Room left where `path` lies, for users without root's reserve."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """The size of the file system where `path` lies."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def boot(self, path: str) -> str:
        """Linux gives every start of the system an id; and a folder that was copied or restored
        from a backup, to another disk or the same, is another one."""
        try:
            found = os.stat(path)
            with open(_BOOT_ID, encoding="ascii") as file:
                return f"{file.read().strip()} {found.st_dev} {found.st_ino}"
        except OSError:
            return ""


def _remove_folder(path: str) -> None:
    """Children first. What somebody else removed meanwhile is gone all the same.

    (shutil.rmtree would do, but importing shutil loads every archive module.)
    """
    with os.scandir(path) as found:
        entries = list(found)
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            if entry.is_dir(follow_symlinks=False):
                _remove_folder(entry.path)
            else:
                os.remove(entry.path)
    os.rmdir(path)
