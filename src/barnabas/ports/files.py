"""Files as a log needs them: explicit positions, explicit syncing, durable names.

Paths are strings joined with "/". Every method raises OSError with the system's own errno when
the outside fails; nothing is retried or swallowed here.
"""

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class AlreadyLockedError(OSError):
    """Another process (or another broker in this one) holds the lock."""


class File(Protocol):
    """One open file. There is no cursor, so readers and the writer never disturb each other."""

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes at `position`; fewer only at the end of the file."""
        ...

    def pread_cached(self, length: int, position: int) -> bytes | memoryview | None:
        """As `pread`, or None when that would have to wait for the disk.

        For the loop's thread only. A view stays as it is for as long as anybody holds it.
        """
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`, or raise (then part of it may have been written)."""
        ...

    def size(self) -> int:
        """The length of the file now."""
        ...

    def truncate(self, length: int) -> None:
        """Cut (or extend with zeros) to `length` bytes."""
        ...

    def sync(self) -> None:
        """Return once every byte written so far would survive power loss. Slow: run it in Work."""
        ...

    def moved(self, path: str) -> None:
        """The file is about to get another name, by which it is to be known from now on."""
        ...

    def close(self) -> None:
        """Release the file. Does not sync."""
        ...


class Lock(Protocol):
    """A held lock."""

    def release(self) -> None:
        """Let others have it."""
        ...


class Files(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. `create` makes an empty file where there is none."""
        ...

    def open_read_only(self, path: str) -> File:
        """Open for reading; writing raises."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder has that name."""
        ...

    def size_of(self, path: str) -> int:
        """The length of a file that need not be open."""
        ...

    def list(self, path: str) -> Sequence[str]:
        """The names in a folder, sorted; files and folders alike. FileNotFoundError if absent."""
        ...

    def make_dirs(self, path: str) -> None:
        """Create a folder and its parents; fine if it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing a file that has it. Atomic."""
        ...

    def remove(self, path: str) -> None:
        """Remove one file. FileNotFoundError if absent."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it; fine if absent."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a folder (created, renamed, removed) survive power loss."""
        ...

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically and durably: temporary file, sync, rename, sync_dir."""
        ...

    def lock(self, path: str) -> Lock:
        """Take an exclusive lock named by a file, or raise AlreadyLockedError at once."""
        ...

    def free_bytes(self, path: str) -> int:
        """Room left where `path` lies."""
        ...

    def total_bytes(self, path: str) -> int:
        """Room there, used and left."""
        ...

    def boot(self, path: str) -> str:
        """The same for as long as whatever was written where `path` lies is still there, synced or
        not: the system has run without a break. Empty: nobody can tell."""
        ...
