"""The ledger in SQLite."""

import sqlite3
from pathlib import Path

import pytest
from tests.client.ledger_suite import EVENTS, Database, LedgerSuite, at

from barnabas.client import ConfigError, LedgerError, SqliteLedger


class Sqlite(Database):
    def __init__(self, path: Path) -> None:
        self.path = path

    def ledger(self) -> SqliteLedger:
        return SqliteLedger(self.path)

    def connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)

    def ledger_on(self, connection: sqlite3.Connection) -> SqliteLedger:
        return SqliteLedger(connection)


@pytest.fixture
def database(tmp_path: Path) -> Sqlite:
    made = Sqlite(tmp_path / "app.db")
    # Readers see the last committed state while somebody writes.
    made.connection().execute("PRAGMA journal_mode = WAL")
    made.prepare()
    return made


class TestSqliteLedger(LedgerSuite):
    """The common suite."""


def test_a_transaction_ended_inside_is_noticed(database: Sqlite) -> None:
    ledger = database.ledger()

    def end_it() -> None:
        with ledger.once(at(0)) as cursor:
            assert cursor is not None
            cursor.connection.commit()

    with pytest.raises(LedgerError, match="ended inside the loop"):
        end_it()


def test_a_row_factory_of_ones_own_does_not_matter(database: Sqlite) -> None:
    connection = database.connection()
    connection.row_factory = lambda cursor, row: {
        column[0]: value for column, value in zip(cursor.description, row, strict=True)
    }
    ledger = database.ledger_on(connection)
    ledger.begin_at(EVENTS, 5)
    assert ledger.position(EVENTS) == 5
    connection.close()


def test_a_table_of_another_name(database: Sqlite) -> None:
    SqliteLedger(database.path, table="handled").begin_at(EVENTS, 3)
    rows = database.connection().execute("SELECT * FROM handled").fetchall()
    assert rows == [("default", "events", 0, 3)]
    with pytest.raises(ConfigError, match="can not be the name of a table"):
        SqliteLedger(database.path, table="x; DROP TABLE effects")


def test_a_file_that_can_not_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="nowhere"):
        SqliteLedger(tmp_path / "nowhere" / "app.db")
