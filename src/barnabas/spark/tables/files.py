"""How data files come into a table's folder, and how they leave it.

A writer has the table alone: it holds a lock on `_staging/lock` from before it reads the table
until after its commit. Files are written into a folder of `_staging`, which no reader looks into,
are synced, and get their names in the table when they are complete; before that, the names are
written down in the same folder. So the next writer of the table finds what one that was killed
has left behind, and removes it: since it has the lock, nobody is about to commit it any more.

Programs that do not take the lock (other Delta writers) are safe, too: nothing is removed but
what our own writers wrote down.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from barnabas.spark.tables import durable
from barnabas.spark.tables.log import LOG_FOLDER, TableLog
from barnabas.spark.tables.snapshot import TableBusyError, TableError

STAGING_FOLDER: Final = "_staging"
_LOCK: Final = "lock"
_NAMES: Final = "names.json"
_DATA: Final = "data"
_WAIT_S: Final = 60.0
_POLL_S: Final = 0.02
_SYNCS_AT_ONCE: Final = 8
_LOG: Final = logging.getLogger("barnabas.spark")


class TableWriter:
    """A table that nobody else of us writes to; made by `writing_alone`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.log = TableLog(folder)
        self._staging = os.path.join(folder, STAGING_FOLDER)
        self._own: list[str] = []

    def stage(self) -> str:
        """A new folder that no reader looks into; whatever is not published goes at the end."""
        own = os.path.join(self._staging, uuid.uuid4().hex)
        with durable.disk_errors(self.folder):
            os.mkdir(own)
        self._own.append(own)
        return os.path.join(own, _DATA)

    def publish(self, staged: str, names: Mapping[str, str]) -> None:
        """Give staged files their names in the table; a commit must follow.

        `names` are the files' paths within what `stage` returned, and those they get within the
        table's folder.
        """
        with durable.disk_errors(self.folder):
            self._refuse_taken(names.values())
            _sync_all(os.path.join(staged, inside) for inside in names)
            written = json.dumps(sorted(names.values())).encode()
            durable.replace(os.path.join(os.path.dirname(staged), _NAMES), written)
            for inside, name in names.items():
                path = os.path.join(self.folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.rename(os.path.join(staged, inside), path)
            _sync_all(_folders_of(self.folder, names.values()))

    def recover(self) -> None:
        """Remove what writers before us have left that did not get to their commit."""
        with durable.disk_errors(self.folder):
            for name in os.listdir(self._staging):
                if name != _LOCK:
                    self._settle(os.path.join(self._staging, name))
            with contextlib.suppress(FileNotFoundError):
                log_folder = os.path.join(self.folder, LOG_FOLDER)
                for name in filter(durable.is_temporary, os.listdir(log_folder)):
                    _unlink(os.path.join(log_folder, name))

    def finish(self) -> None:
        """Remove whatever of our own files was not committed."""
        for own in self._own:
            try:
                with durable.disk_errors(self.folder):
                    self._settle(own)
            except TableError as problem:
                # It must not hide what went wrong before, and nobody sees what is left.
                _LOG.warning("The next writer of the table will clean up %s: %s", own, problem)
        self._own.clear()

    def _refuse_taken(self, names: Iterable[str]) -> None:
        for name in names:
            if os.path.exists(os.path.join(self.folder, name)):
                raise TableError(
                    f"The table {self.folder} has a file {name} already, which is about to be "
                    "written: move it away if it does not belong there."
                )

    def _settle(self, own: str) -> None:
        """Remove a folder of `_staging`, and first what was published from it but not committed."""
        names = _read_names(os.path.join(own, _NAMES))
        snapshot = self.log.snapshot() if names else None
        for name in names:
            if snapshot is None or not (name in snapshot.files or name in snapshot.removed):
                remove_file(self.folder, name)
        # The names go last: who is killed in here has left what the next one needs.
        shutil.rmtree(os.path.join(own, _DATA), ignore_errors=True)
        shutil.rmtree(own, ignore_errors=True)


@contextlib.contextmanager
def writing_alone(folder: str, *, wait_s: float = _WAIT_S) -> Iterator[TableWriter]:
    """Have a table alone, after cleaning up behind writers that were killed.

    TableBusyError when another writer does not let it go in time.
    """
    with durable.disk_errors(folder):
        os.makedirs(os.path.join(folder, STAGING_FOLDER), exist_ok=True)
        path = os.path.join(folder, STAGING_FOLDER, _LOCK)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(descriptor, folder, wait_s)
        writer = TableWriter(folder)
        writer.recover()
        try:
            yield writer
        finally:
            writer.finish()
    finally:
        os.close(descriptor)


def vacuum(folder: str, older_than_s: float) -> int:
    """Remove Parquet files that no kept version refers to; returns how many.

    Only those are removed that were written more than `older_than_s` seconds ago: of a program
    that does not take our lock, younger ones may be about to be committed.
    """
    with writing_alone(folder) as writer:
        return remove_unused(writer, older_than_s)


def remove_unused(writer: TableWriter, older_than_s: float) -> int:
    """The same, for who has the table already."""
    before = time.time() - older_than_s
    kept = writer.log.kept_paths()
    removed = 0
    with durable.disk_errors(writer.folder):
        for name in list(_data_files(writer.folder)):
            if name in kept or _modified(writer.folder, name) >= before:
                continue
            remove_file(writer.folder, name)
            removed += 1
    return removed


def remove_file(folder: str, name: str) -> None:
    """Remove a data file, and the folders that are empty then."""
    _unlink(os.path.join(folder, name))
    parent = os.path.dirname(name)
    while parent:
        try:
            os.rmdir(os.path.join(folder, parent))
        except OSError:
            # Others are in there, mostly.
            return
        parent = os.path.dirname(parent)


def _data_files(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        for name in names:
            if name.endswith(".parquet") and not _is_hidden(name):
                yield os.path.relpath(os.path.join(place, name), folder)


def _is_hidden(name: str) -> bool:
    """Readers leave such out; but the folder of a partition column may begin with `_`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _modified(folder: str, name: str) -> float:
    try:
        return os.stat(os.path.join(folder, name)).st_mtime
    except FileNotFoundError:
        return float("inf")


def _folders_of(folder: str, names: Iterable[str]) -> set[str]:
    """Every folder on the way to these files: its names must be on the disk."""
    found = {folder}
    for name in names:
        parent = os.path.dirname(name)
        while parent:
            found.add(os.path.join(folder, parent))
            parent = os.path.dirname(parent)
    return found


def _sync_all(paths: Iterable[str]) -> None:
    with ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
        for _ in pool.map(durable.sync_file, paths):
            pass


def _read_names(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            names = json.loads(file.read())
    except FileNotFoundError:
        return []
    return [str(name) for name in names]


def _lock(descriptor: int, folder: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            if time.monotonic() >= deadline:
                raise TableBusyError(
                    f"Somebody else has been writing to the table {folder} for {wait_s:g} seconds: "
                    "let one pipeline at a time write to it, and stop the other one."
                ) from problem
            time.sleep(_POLL_S)
        else:
            return


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
