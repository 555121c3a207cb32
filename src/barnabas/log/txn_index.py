"""Transaction indexes: the aborted transactions whose markers lie in a segment, in Kafka's format.

A file has one entry for each, in the order of the markers, and exists only where there are any.
Entries are written as the markers are; what is kept in memory is a few numbers for each file.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.log import names
from barnabas.log.reading import Pread
from barnabas.log.segment import NotCachedError
from barnabas.log.transactions import CompletedTransaction
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.ports.files import Buffer, Files

_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
ABORTED_ENTRY_BYTES: Final = _ENTRY.size
_ENTRIES_AT_ONCE: Final = 128
"""Read in one go while looking through a file: about a page."""
_BUFFER_BYTES: Final = 64 * 1024


class AbortedTransaction(NamedTuple):
    """An aborted transaction; its marker lies at `last_offset`.

    `last_stable_offset`: below it everything was decided once the marker was written. So whoever
    reads only up to there need not look at later entries.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def of(cls, ended: CompletedTransaction, last_stable_offset: int) -> "AbortedTransaction":
        """As it goes into an index."""
        return cls(ended.producer_id, ended.first_offset, ended.last_offset, last_stable_offset)


def encode_aborted(entry: AbortedTransaction) -> bytes:
    """One entry of an index."""
    return _ENTRY.pack(_VERSION, *entry)


def decode_aborted(data: Buffer) -> Iterator[AbortedTransaction]:
    """Every entry of an index; DecodeError where there is none."""
    if len(data) % ABORTED_ENTRY_BYTES:
        raise DecodeError(f"{len(data)} bytes, which are no whole number of entries")
    for version, *entry in _ENTRY.iter_unpack(data):
        if version != _VERSION:
            raise DecodeError(f"an aborted transaction of version {version}")
        yield AbortedTransaction(*entry)


def check_aborted(
    entries: Iterable[AbortedTransaction], base_offset: int, end_offset: int
) -> Iterator[AbortedTransaction]:
    """The same entries; DecodeError at one that can not be of a segment with these bounds."""
    before = base_offset - 1
    for entry in entries:
        if not before < entry.last_offset < end_offset:
            raise DecodeError(
                f"a marker at offset {entry.last_offset}, which is not between {before} and "
                f"{end_offset}"
            )
        if not 0 <= entry.first_offset < entry.last_offset or entry.producer_id < 0:
            raise DecodeError(
                f"a transaction of producer {entry.producer_id} from offset {entry.first_offset} "
                f"to {entry.last_offset}"
            )
        if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
            raise DecodeError(f"a last stable offset of {entry.last_stable_offset}")
        before = entry.last_offset
        yield entry


@dataclass(slots=True)
class TransactionIndex:
    """What is known of one segment's file without reading it."""

    base_offset: int
    count: int = 0
    lowest_first_offset: int = 2**63 - 1
    last_offset: int = -1
    last_stable_offset: int = -1

    def include(self, entry: AbortedTransaction) -> None:
        """The file has one entry more."""
        self.count += 1
        self.lowest_first_offset = min(self.lowest_first_offset, entry.first_offset)
        self.last_offset = entry.last_offset
        self.last_stable_offset = entry.last_stable_offset


class TransactionIndexWriter:
    """Writes an index anew, entry by entry, with little in memory however many there are."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self._files = files
        self._path = path
        self._index = TransactionIndex(base_offset)
        self._pending = bytearray()
        self._written = 0

    def add(self, entry: AbortedTransaction) -> None:
        """The next entry, in the order of the markers."""
        self._index.include(entry)
        self._pending += encode_aborted(entry)
        if len(self._pending) >= _BUFFER_BYTES:
            self._flush()

    def finish(self, *, sync: bool = False) -> TransactionIndex | None:
        """What was written; None, and no file, when there was nothing to write."""
        if self._index.count == 0:
            if self._files.exists(self._path):
                self._files.remove(self._path)
            return None
        self._flush()
        file = self._files.open(self._path)
        try:
            file.truncate(self._written)
            if sync:
                file.sync()
        finally:
            file.close()
        return self._index

    def _flush(self) -> None:
        file = self._files.open(self._path, create=True)
        try:
            file.pwrite(self._pending, self._written)
        finally:
            file.close()
        self._written += len(self._pending)
        self._pending.clear()


class AbortedTransactions:
    """The transaction indexes of one log, by the base offsets of their segments."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._indexes: dict[int, TransactionIndex] = {}
        self._bases: list[int] = []
        self.forgotten = 0
        """Counts what has gone: with it gone, records read before can not be judged any more."""

    def __bool__(self) -> bool:
        return bool(self._bases)

    def path(self, base_offset: int) -> str:
        """Where a segment's index lies, if it has one."""
        return f"{self._directory}/{names.file_name(base_offset, names.TRANSACTION_INDEX)}"

    # --- writing -------------------------------------------------------------------------------

    def write(self, base_offset: int, entry: AbortedTransaction) -> None:
        """Write an entry ahead of its marker; `confirm` or `take_back` follows."""
        index = self._indexes.get(base_offset)
        file = self._files.open(self.path(base_offset), create=True)
        try:
            file.pwrite(encode_aborted(entry), index.count * ABORTED_ENTRY_BYTES if index else 0)
        finally:
            file.close()

    def confirm(self, base_offset: int, entry: AbortedTransaction) -> None:
        """The marker of the entry was written."""
        index = self._indexes.get(base_offset)
        if index is None:
            index = TransactionIndex(base_offset)
            self.put(index)
        index.include(entry)

    def take_back(self, base_offset: int) -> None:
        """The marker could not be written."""
        index = self._indexes.get(base_offset)
        path = self.path(base_offset)
        if not self._files.exists(path):
            return
        if index is None:
            self._files.remove(path)
            return
        file = self._files.open(path)
        try:
            file.truncate(index.count * ABORTED_ENTRY_BYTES)
        finally:
            file.close()

    def sync(self, base_offset: int) -> None:
        """Make a segment's index durable, if it has one. (Its name is the caller's.)"""
        if base_offset in self._indexes:
            file = self._files.open(self.path(base_offset))
            try:
                file.sync()
            finally:
                file.close()

    # --- which there are -----------------------------------------------------------------------

    def load(self, base_offset: int, end_offset: int) -> None:
        """Believe the file of a segment that ends before `end_offset`. DecodeError: it is damaged,
        and the segment counts as one without aborted transactions until its index is rebuilt."""
        self.forget(base_offset)
        path = self.path(base_offset)
        if not self._files.exists(path):
            return
        index = TransactionIndex(base_offset)
        entries = decode_aborted(self._files.read(path))
        for entry in check_aborted(entries, base_offset, end_offset):
            index.include(entry)
        if index.count:
            self.put(index)

    def rebuild(self, base_offset: int, entries: Iterable[AbortedTransaction]) -> None:
        """Write the index of a segment anew, and durably: no later sync knows of it."""
        self.forget(base_offset)
        writer = TransactionIndexWriter(self._files, self.path(base_offset), base_offset)
        for entry in entries:
            writer.add(entry)
        self.put(writer.finish(sync=True))

    def truncate(self, base_offset: int, end_offset: int) -> None:
        """Drop a segment's entries from `end_offset` on."""
        if base_offset in self._indexes:
            entries = list(decode_aborted(self._files.read(self.path(base_offset))))
            self.rebuild(base_offset, (each for each in entries if each.last_offset < end_offset))

    def put(self, index: TransactionIndex | None) -> None:
        """This is what a segment's file holds now; None: there is no file."""
        if index is None:
            return
        self._indexes[index.base_offset] = index
        self._bases = sorted(self._indexes)

    def forget(self, base_offset: int) -> None:
        """The segment is gone; its files are the caller's."""
        self.keep_only(self._indexes.keys() - {base_offset})

    def keep_only(self, base_offsets: Iterable[int]) -> None:
        """Forget all other segments."""
        kept = self._indexes.keys() & set(base_offsets)
        if len(kept) < len(self._indexes):
            self._indexes = {base: self._indexes[base] for base in kept}
            self._bases = sorted(kept)
            self.forgotten += 1

    # --- reading -------------------------------------------------------------------------------

    def search(self, base_offset: int, first: int, up_to: int) -> "AbortedSearch | None":
        """How to find what overlaps with the offsets from `first` on, below `up_to`.

        `base_offset` is that of the segment `first` lies in. None: there is nothing to be found.
        """
        wanted = []
        for base in self._bases[bisect_left(self._bases, base_offset) :]:
            index = self._indexes[base]
            if index.last_offset >= first and index.lowest_first_offset < up_to:
                wanted.append((self.path(base), index.count))
            if index.last_stable_offset >= up_to:
                break
        return AbortedSearch(self._files, tuple(wanted), first, up_to) if wanted else None


class AbortedSearch(NamedTuple):
    """A look into index files, each named with the number of its entries."""

    files: Files
    indexes: tuple[tuple[str, int], ...]
    first: int
    up_to: int

    def read_cached(self) -> list[AbortedTransaction] | None:
        """Carry it out if no disk is needed, else None."""
        try:
            return self._read(cached=True)
        except NotCachedError:
            return None

    def read(self) -> list[AbortedTransaction]:
        """Carry it out, however long the disk takes."""
        return self._read(cached=False)

    def _read(self, *, cached: bool) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        for path, count in self.indexes:
            file = self.files.open_read_only(path)
            try:
                pread: Pread = file.pread_cached if cached else file.pread
                for entry in _entries_from(pread, path, count, self.first):
                    if entry.first_offset < self.up_to:
                        found.append(entry)
                    if entry.last_stable_offset >= self.up_to:
                        return found
            finally:
                file.close()
        return found


def _entries_from(pread: Pread, path: str, count: int, first: int) -> Iterator[AbortedTransaction]:
    """Every entry of a file whose marker lies at `first` or later."""

    def marker(slot: int) -> int:
        return next(_entries(pread, path, slot, 1)).last_offset

    slot = bisect_left(range(count), first, key=marker)
    while slot < count:
        how_many = min(_ENTRIES_AT_ONCE, count - slot)
        yield from _entries(pread, path, slot, how_many)
        slot += how_many


def _entries(pread: Pread, path: str, slot: int, count: int) -> Iterator[AbortedTransaction]:
    size = count * ABORTED_ENTRY_BYTES
    data = pread(size, slot * ABORTED_ENTRY_BYTES)
    if data is None:
        raise NotCachedError
    try:
        if len(data) != size:
            raise DecodeError("fewer entries than before")
        yield from decode_aborted(data)
    except DecodeError as error:
        raise KafkaError(ErrorCode.kafka_storage_error, f"{path} holds {error}.") from error
