"""Operations on the embedded tree, as SQL inside an open transaction."""

import sqlite3
from collections.abc import Iterator, Sequence

from barnabas.ports.coordination import (
    ANY_VERSION,
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetData,
)
from barnabas.ports.tree_paths import parent_of


class Operations:
    """One commit in the making: what it has touched so far, and its number."""

    def __init__(self, database: sqlite3.Connection, session: int) -> None:
        self._database = database
        self._session = session
        self._number = 0
        self.touched: dict[str, None] = {}
        """Nodes that came, went or changed, and the parents of those that came or went."""

    def apply(self, operations: Sequence[Op]) -> Iterator[None]:
        """Do one operation each time it is asked, or raise the error that undoes them all."""
        for operation in operations:
            match operation:
                case Create():
                    self._create(operation)
                case SetData(path, data, version):
                    self._set_data(path, data, version)
                case Delete(path, version):
                    self._delete(path, version)
                case Check(path, version):
                    self._require_version(path, version)
            yield

    def _create(self, operation: Create) -> None:
        parent = parent_of(operation.path)
        path = operation.path + (self._next_in_sequence(parent) if operation.sequence else "")
        owner = self._session if operation.ephemeral else 0
        try:
            done = self._database.execute(
                "INSERT INTO nodes SELECT ?, ?, ?, 0, ?, ?, 0 FROM nodes"
                " WHERE path = ? AND owner = 0",
                (path, parent, operation.data, self._commit_number(), owner, parent),
            )
        except sqlite3.IntegrityError as error:
            raise NodeExistsError(path) from error
        if done.rowcount == 0:
            if self._version(parent) is None:
                raise NoNodeError(parent)
            raise CoordinationError(f"{parent} is ephemeral and can not have children")
        self._touch(path, parent)

    def _next_in_sequence(self, parent: str) -> str:
        row = self._database.execute(
            "SELECT sequence FROM nodes WHERE path = ?", (parent,)
        ).fetchone()
        if row is None:
            raise NoNodeError(parent)
        self._database.execute("UPDATE nodes SET sequence = sequence + 1 WHERE path = ?", (parent,))
        return f"{row[0]:010}"

    def _commit_number(self) -> int:
        if self._number == 0:
            self._database.execute("UPDATE counters SET commits = commits + 1")
            (self._number,) = self._database.execute("SELECT commits FROM counters").fetchone()
        return self._number

    def _set_data(self, path: str, data: bytes, version: int) -> None:
        done = self._database.execute(
            "UPDATE nodes SET data = ?, version = version + 1 WHERE path = ? AND ? IN (version, ?)",
            (data, path, version, ANY_VERSION),
        )
        if done.rowcount == 0:
            self._require_version(path, version)
        self._touch(path)

    def _delete(self, path: str, version: int) -> None:
        done = self._database.execute(
            "DELETE FROM nodes WHERE path = ? AND ? IN (version, ?)"
            " AND NOT EXISTS (SELECT 1 FROM nodes AS below WHERE below.parent = ?)",
            (path, version, ANY_VERSION, path),
        )
        if done.rowcount == 0:
            self._require_version(path, version)
            raise NotEmptyError(path)
        self._touch(path, parent_of(path))

    def _require_version(self, path: str, version: int) -> None:
        found = self._version(path)
        if found is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, found):
            raise BadVersionError(f"{path} has version {found}, not {version}")

    def _version(self, path: str) -> int | None:
        row = self._database.execute("SELECT version FROM nodes WHERE path = ?", (path,)).fetchone()
        return None if row is None else int(row[0])

    def _touch(self, *paths: str) -> None:
        self.touched.update(dict.fromkeys(paths))
