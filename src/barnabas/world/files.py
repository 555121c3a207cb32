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

_MODE: Final = 0o644
_RWF_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)

_CLOSED: Final = 2**31 - 1
"""No process has this descriptor. (-1 would be a ValueError in places, not EBADF.)"""


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
    """One open file. After `close` everything raises EBADF."""

    def __init__(self, descriptor: int, buffers: WarmBuffers) -> None:
        self._descriptor = descriptor
        self._buffers = buffers
        self._nowait = _RWF_NOWAIT

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes at `position`; fewer only at the end of the file."""
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        # The end of the file, a signal, or the 2 GiB the system gives at once: ask until empty.
        parts = [data]
        got = len(data)
        while got < length and (data := os.pread(self._descriptor, length - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pread_cached(self, length: int, position: int) -> bytes | memoryview | None:
        """As `pread`, or None when that would have to wait for the disk."""
        if self._nowait is None:
            return self.pread(length, position)
        view = self._buffers.take(length)
        try:
            got = os.preadv(self._descriptor, [view], position, self._nowait)
        except BlockingIOError:
            return None
        except OSError as error:
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
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            self._pwrite_rest(data, position, written)

    def _pwrite_rest(self, data: Buffer, position: int, written: int) -> None:
        with memoryview(data).cast("B") as view:
            # On a full disk the first write is short and only the next one says ENOSPC.
            while written < view.nbytes:
                more = os.pwrite(self._descriptor, view[written:], position + written)
                if not more:
                    raise OSError(errno.EIO, "the disk took no byte and gave no error")
                written += more

    def size(self) -> int:
        """The length of the file now."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, length: int) -> None:
        """Cut (or extend with zeros) to `length` bytes."""
        os.ftruncate(self._descriptor, length)

    def sync(self) -> None:
        """Return once every byte written so far would survive power loss.

        When this raises, the bytes may be lost although a second call would succeed: Linux
        marks pages clean after a failed write-back. The caller must not trust the file again.
        """
        _sync_descriptor(self._descriptor)

    def close(self) -> None:
        """Release the file. Does not sync; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)


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
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor == _CLOSED:
            return
        self._held.discard(self._identity)
        try:
            # Explicitly, because a forked child would keep the lock alive past our close.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)


class DiskFiles:
    """The machine's file system, for one broker."""

    def __init__(self) -> None:
        self._buffers = WarmBuffers()

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing. `create` makes an empty file where there is none."""
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return DiskFile(os.open(path, flags, _MODE), self._buffers)

    def open_read_only(self, path: str) -> DiskFile:
        """Open for reading; writing raises."""
        descriptor = os.open(path, os.O_RDONLY)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return DiskFile(descriptor, self._buffers)

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
        with open(path, "rb") as file:
            return file.read()

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically and durably: temporary file, sync, rename, sync_dir."""
        temporary = path + ".tmp"
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, _MODE)
            file = DiskFile(descriptor, self._buffers)
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
