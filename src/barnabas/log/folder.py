"""One folder whose names are known while its log is opened.

Opening a log asks many times what is there. Ten thousand logs that are opened at start would ask
the system hundreds of thousands of times; here it is asked once for each folder.
"""

from collections.abc import Sequence

from barnabas.ports.files import File, Files, Lock


class ListedFolder:
    """Files as they are, except that until `forget` the folder's names are remembered.

    Only for whoever alone changes the folder meanwhile. Paths of other folders are passed on.
    """

    __slots__ = ("_directory", "_files", "_names")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._names: set[str] | None = set(files.list(directory))

    def forget(self) -> None:
        """From now on the system is asked."""
        self._names = None

    def _name(self, path: str) -> str | None:
        """The name in this folder that a path stands for, while names are remembered."""
        directory, _, name = path.rpartition("/")
        return name if self._names is not None and directory == self._directory else None

    def _came(self, path: str) -> None:
        name = self._name(path)
        if name is not None and self._names is not None:
            self._names.add(name)

    def _went(self, path: str) -> None:
        name = self._name(path)
        if name is not None and self._names is not None:
            self._names.discard(name)

    # What is answered from memory.

    def exists(self, path: str) -> bool:
        """Whether a file or folder has that name."""
        name = self._name(path)
        if name is None or self._names is None:
            return self._files.exists(path)
        return name in self._names

    def list(self, path: str) -> Sequence[str]:
        """The names in a folder, sorted."""
        if self._names is None or path != self._directory:
            return self._files.list(path)
        return sorted(self._names)

    # What changes names.

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing."""
        file = self._files.open(path, create=create)
        if create:
            self._came(path)
        return file

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name."""
        self._files.rename(source, target)
        self._went(source)
        self._came(target)

    def remove(self, path: str) -> None:
        """Remove one file."""
        self._files.remove(path)
        self._went(path)

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically and durably."""
        self._files.replace(path, data)
        self._came(path)

    def make_dirs(self, path: str) -> None:
        """Create a folder and its parents."""
        self._files.make_dirs(path)
        self._came(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it."""
        self._files.remove_tree(path)
        self._went(path)

    def lock(self, path: str) -> Lock:
        """Take an exclusive lock."""
        lock = self._files.lock(path)
        self._came(path)
        return lock

    # What is only passed on.

    def open_read_only(self, path: str) -> File:
        """Open for reading."""
        return self._files.open_read_only(path)

    def size_of(self, path: str) -> int:
        """The length of a file."""
        return self._files.size_of(path)

    def sync_dir(self, path: str) -> None:
        """Make names durable."""
        self._files.sync_dir(path)

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        return self._files.read(path)

    def free_bytes(self, path: str) -> int:
        """Room left."""
        return self._files.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        """Room, used and left."""
        return self._files.total_bytes(path)

    def boot(self, path: str) -> str:
        """Since when nothing can have been lost."""
        return self._files.boot(path)
