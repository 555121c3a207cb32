"""Putting a cleaned segment in the place of old ones, so that a crash at any moment is harmless.

Four steps, each durable before the next one begins:

1. the new segment's files go from `.cleaned` to `.swap` (until all of them have, it counts for
   nothing: whatever is there of it is removed at the next start),
2. the old segments' files get `.deleted` behind their names (from here on it is the new segment
   that counts: the next start would carry on where this one stopped),
3. the new segment's files get their final names,
4. the old files are removed, once nobody can be reading them.

Names change on the loop, where also the log's segments do, so that a segment and its files always
agree; syncing is slow and happens off it. The transaction index of the new segment replaces that
of the first old one in a single rename, and those of the others stay until they are removed:
whoever is looking into one finds it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from barnabas.log import names
from barnabas.log.cleaner.plan import CleanedSegment, CleaningFailedError
from barnabas.log.log import PartitionLog
from barnabas.log.reading import batches
from barnabas.log.segment import Segment
from barnabas.model.errors import DecodeError
from barnabas.ports.files import Files

logger = logging.getLogger(__name__)

_MARKS: Final = (names.CLEANED, names.SWAP, names.DELETED)


def _path(directory: str, base_offset: int, suffix: str, mark: str = "") -> str:
    return f"{directory}/{names.file_name(base_offset, suffix)}{mark}"


class Swap:
    """One cleaned segment on its way into a log."""

    def __init__(self, files: Files, log: PartitionLog, cleaned: CleanedSegment) -> None:
        self._files = files
        self._log = log
        self._cleaned = cleaned
        self._directory = log.directory
        self._old = _found(log, cleaned.replaces)
        self._new: Segment | None = None
        self._is_torn = False
        """Some of the old files are marked as deleted, and can not be had back."""

    def is_possible(self) -> bool:
        """Whether the log is still as it was when it was cleaned. To be asked on the loop."""
        log, old = self._log, self._old
        return (
            log.failure is None
            and log.config.compacts
            and len(old) == len(self._cleaned.replaces)
            and old == _found(log, self._cleaned.replaces)
            and all(not segment.mark for segment in old)
        )

    def prepare(self) -> None:
        """Off the loop: the first step."""
        for suffix in names.SEGMENT_SUFFIXES:
            source = self._path(suffix, names.CLEANED)
            if self._files.exists(source):
                self._files.rename(source, self._path(suffix, names.SWAP))
        self._files.sync_dir(self._directory)

    def undo(self) -> None:
        """Off the loop, instead of the second step: nothing is left of the first.

        Unless the second has begun for good: then only the new segment has what the old ones
        held, and the next start puts it in.
        """
        if not self._is_torn:
            undo_swap(self._files, self._directory, self._cleaned.base_offset)

    def put_in(self, now_ms: int) -> None:
        """On the loop: the second step, or nothing at all and OSError."""
        log, base = self._log, self._cleaned.base_offset
        new = Segment.existing(self._files, self._directory, base, now_ms, mark=names.SWAP)
        new.first_timestamp = self._cleaned.first_timestamp
        new.touched_ms = max(segment.touched_ms for segment in self._old)
        moved: list[Segment] = []
        try:
            for segment in self._old:
                segment.move(names.DELETED)
                moved.append(segment)
            index = self._path(names.TRANSACTION_INDEX, names.SWAP)
            if self._files.exists(index):
                self._files.rename(index, self._path(names.TRANSACTION_INDEX))
        except OSError as error:
            self._move_back(moved, error)
            raise
        self._new = new
        try:
            log.replace(self._old, new)
        except (DecodeError, OSError) as error:
            log.fail(f"the transaction index of {new.path(names.LOG)} can not be read: {error}")

    def _move_back(self, moved: Sequence[Segment], error: OSError) -> None:
        try:
            for segment in reversed(moved):
                segment.move("")
        except OSError as second:
            self._is_torn = True
            self._log.fail(f"{error}; and what was renamed can not be renamed back: {second}")
        if any(not self._files.exists(each.path(names.LOG)) for each in self._old):
            self._is_torn = True
            self._log.fail(f"{error}; and a segment is without its file")

    def sync(self) -> None:
        """Off the loop, after the second and the third step."""
        self._files.sync_dir(self._directory)

    def name(self) -> None:
        """On the loop: the third step. OSError: not yet; it can be tried again at any time."""
        if self._new is not None and self._new.mark and self._new in self._log.segments:
            self._new.move("")

    @property
    def replaced(self) -> Sequence[Segment]:
        """The segments that the new one stands for."""
        return self._old

    def removal(self) -> Callable[[], None]:
        """The fourth step, for later and off the loop."""
        old, gone = self._old, self._cleaned.replaces[1:]

        def remove() -> None:
            for segment in old:
                segment.close()
                segment.remove_files()
            for base in gone:
                for suffix in (names.TRANSACTION_INDEX, names.SNAPSHOT):
                    _remove(self._files, [_path(self._directory, base, suffix)])

        return remove

    def _path(self, suffix: str, mark: str = "") -> str:
        return _path(self._directory, self._cleaned.base_offset, suffix, mark)


def _found(log: PartitionLog, bases: Sequence[int]) -> list[Segment]:
    """The closed segments of these bases, as far as the log has them side by side."""
    by_base = {segment.base_offset: at for at, segment in enumerate(log.segments[:-1])}
    first = by_base.get(bases[0])
    if first is None:
        return []
    found = log.segments[first : first + len(bases)]
    is_closed = first + len(bases) < len(log.segments)
    return found if is_closed and [each.base_offset for each in found] == list(bases) else []


def undo_swap(files: Files, directory: str, base_offset: int) -> None:
    """Remove a segment that was not put in, in an order that never looks like one that was."""
    log_swap = _path(directory, base_offset, names.LOG, names.SWAP)
    if files.exists(log_swap):
        files.rename(log_swap, _path(directory, base_offset, names.LOG, names.CLEANED))
        files.sync_dir(directory)
    swaps = [_path(directory, base_offset, each, names.SWAP) for each in names.SEGMENT_SUFFIXES]
    if _remove(files, swaps):
        files.sync_dir(directory)
    _remove(
        files, (_path(directory, base_offset, s, names.CLEANED) for s in names.SEGMENT_SUFFIXES)
    )


def remove_cleaned(files: Files, directory: str) -> None:
    """Remove what a cleaning has left that came to no end."""
    if files.exists(directory):
        _remove_marked(files, directory, names.CLEANED)


def finish_swaps(files: Files, directory: str) -> None:
    """At the start, before anything is opened: carry on, or undo, what was interrupted."""
    if any(name.endswith(_MARKS) for name in files.list(directory)):
        _finish_all(files, directory)
    _remove_orphans(files, directory)


def _finish_all(files: Files, directory: str) -> None:
    swaps = set(_marked(files, directory, names.SWAP))
    cleaned = set(_marked(files, directory, names.CLEANED))
    for base in sorted(swaps & cleaned):
        logger.info("%s: the compaction of segment %d is undone", directory, base)
        undo_swap(files, directory, base)
    remove_cleaned(files, directory)
    for base in sorted(swaps - cleaned):
        logger.info("%s: the compaction of segment %d is completed", directory, base)
        _finish(files, directory, base)
    _remove_marked(files, directory, names.DELETED)


def _finish(files: Files, directory: str, base_offset: int) -> None:
    if files.exists(_path(directory, base_offset, names.LOG, names.SWAP)):
        end = _end_offset(files, directory, base_offset)
        bases = {_base(name) for name in files.list(directory) if name.endswith(names.LOG)}
        replaced = [base for base in bases if base is not None and base_offset < base < end]
        for base in sorted(replaced):
            _remove(files, (_path(directory, base, suffix) for suffix in names.SEGMENT_SUFFIXES))
        files.sync_dir(directory)
    for suffix in names.SEGMENT_SUFFIXES:
        source = _path(directory, base_offset, suffix, names.SWAP)
        if files.exists(source):
            files.rename(source, _path(directory, base_offset, suffix))
    files.sync_dir(directory)


def _end_offset(files: Files, directory: str, base_offset: int) -> int:
    """The offset after the last batch of a segment that is to be put in."""
    segment = Segment.existing(files, directory, base_offset, 0, mark=names.SWAP)
    end, reached = base_offset, 0
    try:
        for position, header in batches(segment, 0, segment.size):
            end, reached = header.last_offset + 1, position + header.size
        if reached != segment.size:
            raise CleaningFailedError(
                f"{segment.path(names.LOG)}, which was about to replace others, is damaged at "
                f"byte {reached}. Nothing was changed; restore the file, or delete the topic."
            )
    finally:
        segment.close()
    return end


def _remove_orphans(files: Files, directory: str) -> None:
    """Indexes of segments that are gone."""
    found = files.list(directory)
    logs = {_base(name) for name in found if name.endswith(names.LOG)}
    for name in found:
        base = _base(name) if name.endswith(names.INDEX_SUFFIXES) else None
        if base is not None and base not in logs:
            files.remove(f"{directory}/{name}")


def _marked(files: Files, directory: str, mark: str) -> list[int]:
    """The bases of the segments that have a file with the mark."""
    stems = (n.removesuffix(mark) for n in files.list(directory) if n.endswith(mark))
    return [base for base in map(_base, stems) if base is not None]


def _remove_marked(files: Files, directory: str, mark: str) -> None:
    for base in set(_marked(files, directory, mark)):
        _remove(files, (_path(directory, base, suffix, mark) for suffix in names.SEGMENT_SUFFIXES))


def _base(name: str) -> int | None:
    for suffix in names.SEGMENT_SUFFIXES:
        base = names.offset_of(name, suffix)
        if base is not None:
            return base
    return None


def _remove(files: Files, paths: Iterable[str]) -> bool:
    """Remove those that are there; whether any was."""
    there = [path for path in paths if files.exists(path)]
    for path in there:
        files.remove(path)
    return bool(there)
