"""The SQLite file of the embedded tree: how it is laid out, opened, and brought up to date.

Format 1 had neither numbers of creation nor owners nor sequences; it is carried over when opened.
"""

import sqlite3

from barnabas.model.errors import BarnabasError

_APPLICATION_ID = 0x42524E42
"""Stamped into the file, so that some other program's database is never taken for ours."""

_FORMAT = 2

_TABLES = (
    # `sequence` is the number that the next sequential child gets.
    """CREATE TABLE nodes (
        path TEXT PRIMARY KEY,
        parent TEXT NOT NULL,
        data BLOB NOT NULL,
        version INTEGER NOT NULL,
        created INTEGER NOT NULL,
        owner INTEGER NOT NULL,
        sequence INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX nodes_by_parent ON nodes (parent)",
    # One row: how many commits made nodes, and how many sessions there were.
    "CREATE TABLE counters (commits INTEGER NOT NULL, sessions INTEGER NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
)

_FRESH = (
    *_TABLES,
    "INSERT INTO nodes VALUES ('/', '', x'', 0, 0, 0, 0)",
    "INSERT INTO counters VALUES (0, 0)",
)

_FROM_FORMAT_1 = (
    "DROP INDEX nodes_by_parent",
    "ALTER TABLE nodes RENAME TO nodes_1",
    *_TABLES,
    # By path, so that a parent is older than its children. The root is 0, as in a fresh file.
    """INSERT INTO nodes SELECT path, parent, data, version,
        row_number() OVER (ORDER BY path) - 1, 0, 0 FROM nodes_1 WHERE ephemeral = 0""",
    "INSERT INTO counters SELECT count(*), 0 FROM nodes",
    "DROP TABLE nodes_1",
)


def open_file(path: str) -> tuple[sqlite3.Connection, int]:
    """Open or create the store, end every earlier session, and begin one: its number.

    Raises BarnabasError when the file is damaged, in use, or not ours.
    """
    database = _connect(path)
    try:
        return database, _prepare(database, path)
    except BaseException:
        database.close()
        raise


def _connect(path: str) -> sqlite3.Connection:
    try:
        # One owner, but not always the thread that opened it: a broker in a test runs its own.
        return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise BarnabasError(f"The metadata store {path} can not be opened: {error}.") from error


def _prepare(database: sqlite3.Connection, path: str) -> int:
    try:
        # Exclusive: two brokers on one store would each believe the other's session dead.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = _format(database, path)
        return _begin_session(database, path, version)
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise BarnabasError(
                f"The metadata store {path} is in use by another process; stop that one first."
            ) from error
        raise BarnabasError(f"The metadata store {path} can not be opened: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from error


def _format(database: sqlite3.Connection, path: str) -> int:
    """Which format the file has; 0 when it is empty."""
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0:
        return 0
    (stamp,) = database.execute("PRAGMA application_id").fetchone()
    if stamp != _APPLICATION_ID:
        raise BarnabasError(f"{path} is the database of another program, not a metadata store.")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if not 1 <= version <= _FORMAT:
        raise BarnabasError(
            f"The metadata store {path} has format {version}, and this version of Barnabas "
            f"reads formats 1 to {_FORMAT}."
        )
    return int(version)


def _begin_session(database: sqlite3.Connection, path: str, version: int) -> int:
    # A write-ahead log costs one fsync for each commit where a rollback journal costs three or
    # more, and FULL makes it one for each: acknowledged means it survives power loss.
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _damaged(path, verdict)
    steps = {0: _FRESH, 1: _FROM_FORMAT_1}.get(version, ())
    database.execute("BEGIN IMMEDIATE")
    for statement in (
        *steps,
        "DELETE FROM nodes WHERE owner != 0",
        "UPDATE counters SET sessions = sessions + 1",
    ):
        database.execute(statement)
    database.execute("COMMIT")
    (session,) = database.execute("SELECT sessions FROM counters").fetchone()
    return int(session)


def _damaged(path: str, detail: str) -> BarnabasError:
    sentence = " ".join(detail.split())
    return BarnabasError(
        f"The metadata store {path} is damaged ({sentence}): restore it from a backup, or remove "
        "it to start without the topics it knew."
    )
