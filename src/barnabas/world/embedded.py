"""The tree of a single broker, in one SQLite file.

Everything is done on the calling thread, fsync included, although that may hold up the loop for
some milliseconds. Metadata changes are rare (a topic is created, a block of producer ids is
taken), a broker alone never changes its in-sync replicas, and in exchange the order of commits is
the order of calls, a cancelled caller can not leave half a step behind, and the same store runs
under a simulated loop, which has no threads. A commit of many operations (a topic of ten thousand
partitions) lets the loop go on now and then; who asks for something meanwhile waits for its end.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.model.check import require
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import (
    ANY_VERSION,
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetData,
)

_APPLICATION_ID = 0x42524E42
"""Stamped into the file, so that some other program's database is never taken for ours."""

_FORMAT = 1

_OPERATIONS_AT_ONCE = 256
"""Between two turns of the loop: a millisecond or two."""

_SCHEMA = (
    """CREATE TABLE nodes (
        path TEXT PRIMARY KEY,
        parent TEXT NOT NULL,
        data BLOB NOT NULL,
        version INTEGER NOT NULL,
        ephemeral INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX nodes_by_parent ON nodes (parent)",
    "INSERT INTO nodes VALUES ('/', '', x'', 0, 0)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
)


class EmbeddedCoordination:
    """Coordination for one process: `path` is a file, or ":memory:" for nothing durable."""

    def __init__(self, path: str) -> None:
        """Open or create the store and end every earlier session.

        Raises BarnabasError when the file is damaged, in use, or not ours.
        """
        self._path = path
        self._one_at_a_time = asyncio.Lock()
        self._watches: list[_Watch] = []
        self._database = _connect(path)
        try:
            _prepare(self._database, path)
        except BaseException:
            self._database.close()
            raise

    async def get(self, path: str) -> Node | None:
        """The node, or None."""
        _check_path(path)
        rows = await self._query("SELECT data, version FROM nodes WHERE path = ?", path)
        return Node(rows[0][0], rows[0][1]) if rows else None

    async def children(self, path: str) -> Sequence[str]:
        """Names of the children, sorted; empty when there is no such node."""
        _check_path(path)
        rows = await self._query("SELECT path FROM nodes WHERE parent = ? ORDER BY path", path)
        return [child.rpartition("/")[2] for (child,) in rows]

    async def tree(self, path: str) -> Mapping[str, Node]:
        """Every node strictly below `path`, by full path."""
        _check_path(path)
        prefix = _prefix(path)
        # "0" is the character after "/": between the two lies all that begins with the prefix.
        rows = await self._query(
            "SELECT path, data, version FROM nodes WHERE path > ? AND path < ? ORDER BY path",
            prefix,
            prefix[:-1] + "0",
        )
        return {below: Node(data, version) for below, data, version in rows}

    async def commit(self, *operations: Op) -> None:
        """Do all of the operations or none, durably. Raises the error of the first that fails."""
        for operation in operations:
            _check_path(operation.path)
        async with self._one_at_a_time:
            await self._transact(operations)
        changed = [each.path for each in operations if not isinstance(each, Check)]
        loop = asyncio.get_running_loop()
        for watch in self._watches:
            watch.tell(changed, loop)

    def watch(self, path: str, changed: Callable[[], None]) -> None:
        """Call `changed` on the loop after anything at or below `path` changed; may coalesce."""
        _check_path(path)
        self._watches.append(_Watch(path, changed))

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish. A second call does nothing."""
        for watch in self._watches:
            watch.silenced = True
        self._watches.clear()
        async with self._one_at_a_time:
            self._end_session()

    def _end_session(self) -> None:
        try:
            self._database.execute("DELETE FROM nodes WHERE ephemeral = 1")
        except sqlite3.ProgrammingError:
            return  # closed already
        except sqlite3.Error as error:
            # Nothing is lost: whoever opens the store next begins by removing them.
            raise self._cannot("written", error) from error
        finally:
            self._database.close()

    async def _query(self, statement: str, *parameters: str) -> list[tuple[Any, ...]]:
        async with self._one_at_a_time:
            try:
                return self._database.execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                raise self._cannot("read", error) from error

    async def _transact(self, operations: Sequence[Op]) -> None:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for count, operation in enumerate(operations, 1):
                    _apply(self._database, operation)
                    if count % _OPERATIONS_AT_ONCE == 0:
                        await asyncio.sleep(0)
                self._database.execute("COMMIT")
            finally:
                # After success, or when SQLite has given up the transaction itself, there is none.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._cannot("written", error) from error

    def _cannot(self, what: str, error: sqlite3.Error) -> BarnabasError:
        return BarnabasError(f"The metadata store {self._path} can not be {what}: {error}.")


class _Watch:
    """One callback. Changes between the first and the call it leads to are told together."""

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        self._path = path
        self._prefix = _prefix(path)
        self._changed = changed
        self._scheduled = False
        self.silenced = False

    def tell(self, paths: Sequence[str], loop: asyncio.AbstractEventLoop) -> None:
        if not self._scheduled and any(
            path == self._path or path.startswith(self._prefix) for path in paths
        ):
            self._scheduled = True
            loop.call_soon(self._call)

    def _call(self) -> None:
        self._scheduled = False
        if not self.silenced:
            self._changed()


def _check_path(path: str) -> None:
    well_formed = path == "/" or (
        path.startswith("/") and not path.endswith("/") and "//" not in path
    )
    require(well_formed, f"not the path of a node: {path!r}")


def _prefix(path: str) -> str:
    """What the path of everything below begins with."""
    return "/" if path == "/" else path + "/"


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _connect(path: str) -> sqlite3.Connection:
    try:
        # One owner, but not always the thread that opened it: a broker in a test runs its own.
        return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise BarnabasError(f"The metadata store {path} can not be opened: {error}.") from error


def _prepare(database: sqlite3.Connection, path: str) -> None:
    try:
        # Exclusive: two brokers on one store would each believe the other's session dead.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        if _is_empty(database):
            stamp, version = _APPLICATION_ID, _FORMAT
        else:
            (stamp,) = database.execute("PRAGMA application_id").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
        if stamp != _APPLICATION_ID:
            raise BarnabasError(f"{path} is the database of another program, not a metadata store.")
        if version != _FORMAT:
            raise BarnabasError(
                f"The metadata store {path} has format {version}, and this version of Barnabas "
                f"reads format {_FORMAT}."
            )
        _open_session(database, path)
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise BarnabasError(
                f"The metadata store {path} is in use by another process; stop that one first."
            ) from error
        raise BarnabasError(f"The metadata store {path} can not be opened: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from error


def _is_empty(database: sqlite3.Connection) -> bool:
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(tables == 0)


def _open_session(database: sqlite3.Connection, path: str) -> None:
    # A write-ahead log costs one fsync for each commit where a rollback journal costs three or
    # more, and FULL makes it one for each: acknowledged means it survives power loss.
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _damaged(path, verdict)
    database.execute("BEGIN IMMEDIATE")
    if _is_empty(database):
        for statement in _SCHEMA:
            database.execute(statement)
    database.execute("DELETE FROM nodes WHERE ephemeral = 1")
    database.execute("COMMIT")


def _damaged(path: str, detail: str) -> BarnabasError:
    sentence = " ".join(detail.split())
    return BarnabasError(
        f"The metadata store {path} is damaged ({sentence}): restore it from a backup, or remove "
        "it to start without the topics it knew."
    )


def _apply(database: sqlite3.Connection, operation: Op) -> None:
    """One operation inside the open transaction, or the error that undoes them all."""
    match operation:
        case Create():
            _create(database, operation)
        case SetData(path, data, version):
            _set_data(database, path, data, version)
        case Delete(path, version):
            _delete(database, path, version)
        case Check(path, version):
            _require_version(database, path, version)


def _create(database: sqlite3.Connection, operation: Create) -> None:
    path, parent = operation.path, _parent(operation.path)
    try:
        done = database.execute(
            "INSERT INTO nodes SELECT ?, ?, ?, 0, ? FROM nodes WHERE path = ? AND ephemeral = 0",
            (path, parent, operation.data, int(operation.ephemeral), parent),
        )
    except sqlite3.IntegrityError as error:
        raise NodeExistsError(path) from error
    if done.rowcount == 0:
        if _row(database, parent) is None:
            raise NoNodeError(parent)
        raise CoordinationError(f"{parent} is ephemeral and can not have children")


def _set_data(database: sqlite3.Connection, path: str, data: bytes, version: int) -> None:
    done = database.execute(
        "UPDATE nodes SET data = ?, version = version + 1 WHERE path = ? AND ? IN (version, ?)",
        (data, path, version, ANY_VERSION),
    )
    if done.rowcount == 0:
        _require_version(database, path, version)


def _delete(database: sqlite3.Connection, path: str, version: int) -> None:
    require(path != "/", "the root can not be deleted")
    done = database.execute(
        "DELETE FROM nodes WHERE path = ? AND ? IN (version, ?)"
        " AND NOT EXISTS (SELECT 1 FROM nodes AS below WHERE below.parent = ?)",
        (path, version, ANY_VERSION, path),
    )
    if done.rowcount == 0:
        _require_version(database, path, version)
        raise NotEmptyError(path)


def _require_version(database: sqlite3.Connection, path: str, version: int) -> None:
    found = _row(database, path)
    if found is None:
        raise NoNodeError(path)
    if version not in (ANY_VERSION, found[0]):
        raise BadVersionError(f"{path} has version {found[0]}, not {version}")


def _row(database: sqlite3.Connection, path: str) -> tuple[int, int] | None:
    """Version and whether ephemeral."""
    found: tuple[int, int] | None = database.execute(
        "SELECT version, ephemeral FROM nodes WHERE path = ?", (path,)
    ).fetchone()
    return found
