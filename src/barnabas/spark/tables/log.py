"""The log of a table: which Parquet files count, version by version.

It is a Delta Lake transaction log (reader version 1, writer version 2), so whatever reads Delta
tables reads ours. A version is a file of `_delta_log` named after its number. It gets its name
when it is complete, and only if no other has that name: so each version is there whole or not at
all, and of two writers one wins and the other looks at what has changed.
"""

import logging
import os
import uuid
from collections.abc import Iterable
from typing import Final

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.tables import actions, checkpoints, durable
from barnabas.spark.tables.actions import DamagedError, Json, State
from barnabas.spark.tables.snapshot import (
    Batch,
    BatchIsIn,
    DataFile,
    Shape,
    Snapshot,
    TableConflictError,
    TableError,
)

LOG_FOLDER: Final = "_delta_log"
UNBORN: Final = -1
"""The version before a table's first."""
_READS_MAX: Final = 20
_COMMITS_MAX: Final = 1000
_LOG: Final = logging.getLogger("barnabas.spark")


class TableLog:
    """The log of one table, for one thread.

    It remembers what it has read, so the next snapshot costs only what was committed since.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._log_folder = os.path.join(folder, LOG_FOLDER)
        self._last: Snapshot | None = None
        self._seen: tuple[int, int] | None = None
        """Which file the last version was: another one means that the table was made anew."""
        self._fresh = True
        """Nobody has made sure yet that no version is missing."""

    def snapshot(self, version: int | None = None) -> Snapshot | None:
        """The table as it is now, or at a version of the past; None where there is no table.

        TableError for a log that is damaged or that uses what is not known here, and for a
        version that is not kept any more or not there yet.
        """
        with durable.disk_errors(self.folder):
            if version is not None:
                return self._at(version)
            missing: Snapshot | None = None
            for _ in range(_READS_MAX):
                if self._last is None and not self._begin():
                    return None
                if self._catch_up():
                    return self._last
                # The versions in between are gone: a checkpoint has them.
                missing, self._last, self._fresh = self._last, None, True
        after = 0 if missing is None else missing.version + 1
        raise TableError(
            f"The log of the table {self.folder} is damaged: version {after} is missing, and there "
            "are later ones; put it back from a copy, or write to another folder."
        )

    def create(self, shape: Shape) -> Snapshot:
        """Make an empty table; TableConflictError where there is one already."""
        return self.commit(self.unborn(shape), operation="CREATE TABLE")

    def unborn(self, shape: Shape) -> Snapshot:
        """What to commit on where there is no table: the first commit makes it, with its files."""
        return Snapshot(UNBORN, str(uuid.uuid4()), shape, {}, {})

    def commit(
        self,
        base: Snapshot,
        *,
        add: Iterable[DataFile] = (),
        remove: Iterable[str] = (),
        batch: Batch | None = None,
        operation: str,
        data_change: bool = True,
        shape: Shape | None = None,
        alone: bool = False,
    ) -> Snapshot:
        """Make the next version, and return it.

        `remove` are paths of files that counted in `base`. What others committed since `base` is
        no hindrance unless it removed one of these, or changed the table's shape; with `alone`
        nothing at all may have changed, as when the rows depend on all that was there.
        `data_change` is False for a commit that puts the same rows into other files.

        BatchIsIn when the batch, or a later one, is committed; TableConflictError for what is in
        the way of this commit.
        """
        new, old = list(add), list(dict.fromkeys(remove))
        now = base
        for _ in range(_COMMITS_MAX):
            self._check(base, now, new, old, batch, alone=alone)
            self._check_append_only(now, old, data_change=data_change)
            written = self._written(now, new, old, batch, operation, data_change, shape)
            mine = now.version + 1
            with durable.disk_errors(self.folder):
                won = self._put(mine, written)
            now = self._needed()
            if won:
                due = mine > 0 and mine % checkpoints.EVERY_VERSIONS == 0
                return self._kept_short(now) if due else now
        raise TableConflictError(
            f"Too many others write to the table {self.folder} at the same time: try again."
        )

    def fingerprint(self, batch: Batch) -> str:
        """What was said of a batch when it was committed; empty where its version is gone."""
        with durable.disk_errors(self.folder):
            for version in reversed(checkpoints.listed(self._log_folder)[0]):
                try:
                    with open(self._path(version), "rb") as file:
                        found = actions.fingerprint_in(file.read(), batch)
                except FileNotFoundError:
                    return ""
                except DamagedError as problem:
                    raise self._refusal(version, problem) from problem
                if found is not None:
                    return found
        return ""

    def kept_paths(self) -> set[str]:
        """The files that count in any version that can still be read."""
        with durable.disk_errors(self.folder):
            versions, made = checkpoints.listed(self._log_folder)
            oldest = self._at(_oldest(versions, made))
            if oldest is None:
                return set()
            now = State.of(oldest)
            for version in (one for one in versions if one > oldest.version):
                self._apply(now, version)
        since = (path for path, at in now.removed.items() if oldest.removed.get(path) != at)
        return {*now.files, *since}

    def _begin(self) -> bool:
        """Read where the log begins: its newest checkpoint, or version 0; False if it has none."""
        newest = checkpoints.newest(self._log_folder)
        if newest is None:
            try:
                versions, made = checkpoints.listed(self._log_folder)
            except (FileNotFoundError, NotADirectoryError):
                return False
            if not versions and not made:
                return False
            newest = made[-1] if made else None
        if newest is None:
            self._remember(self._applied(None, 0))
            return True
        try:
            self._remember(self._from_checkpoint(newest))
        except FileNotFoundError:
            # A newer one has taken its place.
            return self._begin()
        return True

    def _catch_up(self) -> bool:
        """Read all versions that are newer; False where some were removed before we came."""
        if self._last is None:
            raise BrokenInvariantError("self._last is there by now")
        if self._seen is not None and self._identity(self._last.version) != self._seen:
            return False
        try:
            while True:
                self._remember(self._applied(self._last, self._last.version + 1))
        except FileNotFoundError:
            return self._is_current(self._last.version)

    def _is_current(self, version: int) -> bool:
        """Whether the last version that was read is the same as before, and none is after it."""
        here = self._identity(version)
        if here is not None and not self._fresh:
            return here == self._seen
        try:
            versions, made = checkpoints.listed(self._log_folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._fresh = False
        return here == self._seen and version == max([*versions, *made], default=-1)

    def _remember(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        self._seen = self._identity(snapshot.version)

    def _identity(self, version: int) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path(version))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _at(self, version: int) -> Snapshot | None:
        """The table at a version of the past."""
        try:
            versions, made = checkpoints.listed(self._log_folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not versions and not made:
            return None
        base = max((one for one in made if one <= version), default=None)
        try:
            snapshot = self._applied(None, 0) if base is None else self._from_checkpoint(base)
            while snapshot.version < version:
                snapshot = self._applied(snapshot, snapshot.version + 1)
        except FileNotFoundError as problem:
            raise TableError(
                f"The table {self.folder} has no version {version}: those from "
                f"{_oldest(versions, made)} to {max([*versions, *made])} can be read."
            ) from problem
        return snapshot

    def _needed(self) -> Snapshot:
        snapshot = self.snapshot()
        if snapshot is None:
            raise TableError(
                f"The log of the table {self.folder} is gone: somebody has deleted the table while "
                "it was written; run again to make it anew."
            )
        return snapshot

    def _from_checkpoint(self, version: int) -> Snapshot:
        try:
            return checkpoints.read(self._log_folder, version)
        except DamagedError as problem:
            where = os.path.join(LOG_FOLDER, checkpoints.checkpoint_name(version))
            raise actions.refusal(self.folder, where, problem) from problem

    def _applied(self, last: Snapshot | None, version: int) -> Snapshot:
        """What the table is after one more version; FileNotFoundError where there is none."""
        state = State() if last is None else State.of(last)
        self._apply(state, version)
        return self._final(state, version)

    def _apply(self, state: State, version: int) -> None:
        with open(self._path(version), "rb") as file:
            content = file.read()
        try:
            actions.apply_version(state, content)
        except DamagedError as problem:
            raise self._refusal(version, problem) from problem

    def _final(self, state: State, version: int) -> Snapshot:
        try:
            return state.snapshot(version)
        except DamagedError as problem:
            raise self._refusal(version, problem) from problem

    def _refusal(self, version: int, problem: DamagedError) -> TableError:
        where = os.path.join(LOG_FOLDER, checkpoints.version_name(version))
        return actions.refusal(self.folder, where, problem)

    def _path(self, version: int) -> str:
        return os.path.join(self._log_folder, checkpoints.version_name(version))

    def _put(self, version: int, written: list[Json]) -> bool:
        if version == 0:
            os.makedirs(self._log_folder, exist_ok=True)
            durable.sync_folders_above(self._log_folder)
            if checkpoints.listed(self._log_folder) != ([], []):
                return False
        return durable.put_if_absent(self._path(version), actions.encode(written))

    def _check(
        self,
        base: Snapshot,
        now: Snapshot,
        new: list[DataFile],
        old: list[str],
        batch: Batch | None,
        *,
        alone: bool,
    ) -> None:
        """Whether what was made for one version can follow another."""
        if batch is not None and now.has(batch):
            raise BatchIsIn(f"{batch.application} has committed batch {batch.number} already")
        gone = next((path for path in old if path not in now.files), None)
        twice = next((file.path for file in new if file.path in now.files), None)
        reason = (
            "somebody else has made the table"
            if now.table_id != base.table_id
            else f"the file {gone} does not count any more"
            if gone is not None
            else f"the file {twice} is in the table already"
            if twice is not None
            else "its columns or settings have changed"
            if now.shape != base.shape
            else "other rows were committed"
            if alone and now.version != base.version
            else None
        )
        if reason is not None:
            raise TableConflictError(
                f"What was written to the table {self.folder} does not fit any more, because "
                f"{reason}: let one writer at a time write to it, and run again."
            )

    def _check_append_only(self, now: Snapshot, old: list[str], *, data_change: bool) -> None:
        if old and data_change and now.shape.settings.get("delta.appendOnly") == "true":
            raise TableError(
                f"The table {self.folder} only takes new rows, as its setting delta.appendOnly "
                "says: append to it, or write to another folder."
            )

    def _written(
        self,
        now: Snapshot,
        new: list[DataFile],
        old: list[str],
        batch: Batch | None,
        operation: str,
        data_change: bool,
        shape: Shape | None,
    ) -> list[Json]:
        written = [actions.commit_info(operation, "" if batch is None else batch.fingerprint)]
        if now.version == UNBORN:
            written.append(actions.protocol_action())
        if now.version == UNBORN or (shape is not None and shape != now.shape):
            written.append(actions.metadata_action(now.table_id, shape or now.shape))
        if batch is not None:
            written.append(actions.transaction_action(batch))
        written += [actions.remove_action(now.files[path], data_change=data_change) for path in old]
        written += [actions.add_action(file, data_change=data_change) for file in new]
        return written

    def _kept_short(self, now: Snapshot) -> Snapshot:
        """Write a checkpoint and remove old versions; the commit counts even if this fails."""
        short = checkpoints.without_expired(now)
        try:
            checkpoints.write(self._log_folder, short)
            checkpoints.remove_old_versions(self._log_folder)
        except OSError as problem:
            _LOG.warning(
                "The table %s got no checkpoint at version %d (%s), so reading it takes longer "
                "until it gets the next one.",
                self.folder,
                now.version,
                problem,
            )
            return now
        self._last = short
        return short


def _oldest(versions: list[int], made: list[int]) -> int:
    """The oldest version that can be read, and from which on all others can.

    Whoever removes old versions may be killed before the checkpoints that go with them are gone:
    what is before a gap says nothing of what is behind it.
    """
    first = versions[-1] if versions else max(made, default=0)
    there = set(versions)
    while first - 1 in there:
        first -= 1
    return 0 if first == 0 else min((one for one in made if one >= first - 1), default=first)
