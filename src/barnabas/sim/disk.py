"""The state of a simulated disk: what the program sees, and what power loss would leave.

The rules are told at the top of `files.py`; here is their bookkeeping. Nothing here raises
injected errors or knows about open handles.
"""

import random
from collections.abc import Iterator
from typing import Final

PAGE_BYTES: Final = 4096
"""What the operating system writes back: a write dirties the whole page."""

SECTOR_BYTES: Final = 512
"""What the device writes at once: it is all old or all new."""


class Inode:
    """The bytes of one file, twice: in the page cache, and on the medium."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.durable = bytearray()
        self._dirty: set[int] = set()
        self._doubtful: set[int] = set()
        """Pages a failed sync has marked clean: no later sync writes them, until written again."""
        self._shortest = 0
        """The least length since the last sync: the medium may have seen that truncation."""

    def write(self, data: bytes | memoryview, position: int) -> None:
        """Put bytes into the page cache; a gap before them reads as zeros."""
        if not data:
            return
        end = position + len(data)
        self._grow(end)
        self.seen[position:end] = data
        self._touch(position, end)

    def truncate(self, length: int) -> None:
        """Cut or extend in the page cache."""
        if length >= len(self.seen):
            self._grow(length)
            return
        del self.seen[length:]
        self._shortest = min(self._shortest, length)
        beyond = -(-length // PAGE_BYTES)
        self._dirty = {page for page in self._dirty if page < beyond}
        self._doubtful = {page for page in self._doubtful if page < beyond}

    def sync(self) -> None:
        """Bring the dirty pages and the length to the medium."""
        del self.durable[self._shortest :]
        _resize(self.durable, len(self.seen))
        for page in self._dirty:
            start = page * PAGE_BYTES
            self.durable[start : start + PAGE_BYTES] = self.seen[start : start + PAGE_BYTES]
        self._dirty.clear()
        self._shortest = len(self.seen)

    def fail_sync(self) -> None:
        """What Linux does when write-back fails: the pages are clean now, and perhaps lost."""
        self._doubtful |= self._dirty
        self._dirty.clear()

    def flip_bit(self, position: int, bit: int) -> None:
        """Bit rot, seen at once (as if the page had been read again)."""
        self.seen[position] ^= 1 << bit
        if position < len(self.durable):
            self.durable[position] ^= 1 << bit

    def lose_power(self, chance: random.Random) -> None:
        """Choose one of the states the medium may be in, and make it the only truth."""
        self.seen = self._survivor(chance)
        self.durable = bytearray(self.seen)
        self._dirty.clear()
        self._doubtful.clear()
        self._shortest = len(self.seen)

    def _survivor(self, chance: random.Random) -> bytearray:
        kind = chance.choice(("lost", "kept", "cut", "torn", "zeroed"))
        if kind == "lost":
            return bytearray(self.durable)
        if kind == "kept" and not self._doubtful:
            return bytearray(self.seen)
        image = bytearray(self.durable)
        if self._shortest < len(image):
            del image[chance.choice((self._shortest, len(image))) :]
        shortest = min(len(image), len(self.seen))
        length = len(self.seen) if kind != "cut" else chance.randint(shortest, len(self.seen))
        if len(image) > length and chance.random() < 0.5:
            length = len(image)  # a truncation that did not reach the medium
        synced = min(len(image), self._shortest)
        _resize(image, length)
        for start, end in self._unsynced_sectors(min(length, len(self.seen))):
            fresh = chance.random() < 0.5 if kind == "torn" else kind != "zeroed"
            if start < synced:  # overwritten in place: old or new, whatever befalls the tail
                fresh = chance.random() < 0.5
            if fresh:
                image[start:end] = self.seen[start:end]
        return image

    def _unsynced_sectors(self, length: int) -> Iterator[tuple[int, int]]:
        for page in sorted(self._dirty | self._doubtful):
            first = page * PAGE_BYTES
            for start in range(first, min(first + PAGE_BYTES, length), SECTOR_BYTES):
                yield start, min(start + SECTOR_BYTES, length)

    def _grow(self, length: int) -> None:
        old = len(self.seen)
        if length > old:
            _resize(self.seen, length)
            self._touch(old, length)

    def _touch(self, start: int, end: int) -> None:
        pages = range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)
        self._dirty.update(pages)
        self._doubtful.difference_update(pages)


def _resize(data: bytearray, length: int) -> None:
    del data[length:]
    data += bytes(length - len(data))


class Folder:
    """Names, twice: as the program sees them, and on the medium."""

    def __init__(self) -> None:
        self.seen: dict[str, Inode | Folder] = {}
        self.durable: dict[str, Inode | Folder] = {}


class Change:
    """Names set (or removed, where None) together: all of them survive power loss or none."""

    def __init__(self, *settings: tuple[Folder, str, Inode | Folder | None]) -> None:
        self._settings = settings

    def apply_seen(self) -> None:
        """Let the program see it."""
        for folder, name, entry in self._settings:
            _set(folder.seen, name, entry)

    def apply_durable(self) -> None:
        """Bring it to the medium."""
        for folder, name, entry in self._settings:
            _set(folder.durable, name, entry)

    def touches(self, folder: Folder) -> bool:
        """Whether a name in `folder` is among them."""
        return any(each is folder for each, _, _ in self._settings)

    def places(self) -> Iterator[tuple[int, str]]:
        """Which names, in a form that can be compared."""
        for folder, name, _ in self._settings:
            yield id(folder), name


def _set(names: dict[str, Inode | Folder], name: str, entry: Inode | Folder | None) -> None:
    if entry is None:
        names.pop(name, None)
    else:
        names[name] = entry


class Disk:
    """A tree of folders, and the changes of names that only the program has seen so far."""

    def __init__(self) -> None:
        self.root = Folder()
        self.power_losses = 0
        self._pending: list[Change] = []

    def change(self, *settings: tuple[Folder, str, Inode | Folder | None]) -> None:
        """Change names; durable only after `sync_names` of a folder concerned."""
        change = Change(*settings)
        change.apply_seen()
        self._pending.append(change)

    def sync_names(self, folder: Folder) -> None:
        """Make every change in `folder` durable, with the earlier ones they build on."""
        for chain in self._chains():
            concerned = [at for at, change in enumerate(chain) if change.touches(folder)]
            if concerned:
                self._settle(chain[: concerned[-1] + 1])

    def lose_power(self, chance: random.Random) -> None:
        """Choose one of the states the medium may be in, for names and for bytes."""
        self.power_losses += 1
        for chain in self._chains():
            self._settle(chain[: chance.randint(0, len(chain))])
        self._pending.clear()
        for folder in self._durable_folders(self.root):
            folder.seen = dict(sorted(folder.durable.items()))
            for entry in folder.seen.values():
                if isinstance(entry, Inode):
                    entry.lose_power(chance)

    def used_bytes(self) -> int:
        """What all files together hold."""
        return _bytes_below(self.root)

    def _settle(self, changes: list[Change]) -> None:
        for change in changes:
            change.apply_durable()
            self._pending.remove(change)

    def _chains(self) -> list[list[Change]]:
        """Pending changes in order, grouped so that those with a name in common stay together.

        A chain reaches the medium from its beginning; different chains know nothing of each other.
        """
        chains: list[tuple[set[tuple[int, str]], list[Change]]] = []
        for change in self._pending:
            places, members = set(change.places()), [change]
            apart = []
            for chain in chains:
                if chain[0] & places:
                    places |= chain[0]
                    members = chain[1] + members
                else:
                    apart.append(chain)
            chains = [*apart, (places, members)]
        return [members for _, members in chains]

    def _durable_folders(self, folder: Folder) -> Iterator[Folder]:
        yield folder
        for _, entry in sorted(folder.durable.items()):
            if isinstance(entry, Folder):
                yield from self._durable_folders(entry)


def _bytes_below(folder: Folder) -> int:
    return sum(
        len(entry.seen) if isinstance(entry, Inode) else _bytes_below(entry)
        for entry in folder.seen.values()
    )
