"""`SqliteLedger`: the ledger in a SQLite database."""

import os
import sqlite3
from typing import Final

from barnabas.client.errors import LedgerError
from barnabas.client.ledger.base import DEFAULT_TABLE, Ledger

BUSY_S: Final = 30.0
"""How long to wait for another process that is writing to the same file."""


class SqliteLedger(Ledger[sqlite3.Cursor]):
    """In a file (made when it is not there), or in the database of a connection you have.

    A given connection must have no open transaction, and its effects go through the ledger only.
    """

    _mark = "?"

    def __init__(
        self,
        database: "str | os.PathLike[str] | sqlite3.Connection",
        *,
        table: str = DEFAULT_TABLE,
    ) -> None:
        super().__init__(table)
        self._owned = not isinstance(database, sqlite3.Connection)
        if isinstance(database, sqlite3.Connection):
            self.connection = database
        else:
            # The asyncio face works on a thread of its own; never two threads at once.
            try:
                self.connection = sqlite3.connect(
                    database, timeout=BUSY_S, isolation_level=None, check_same_thread=False
                )
            except sqlite3.OperationalError as error:
                raise LedgerError(
                    f"The ledger's database {os.fspath(database)} can not be opened ({error})."
                ) from error

    def _begin(self) -> sqlite3.Cursor:
        if self.connection.in_transaction:
            raise LedgerError(
                "The connection has an open transaction: commit it before the ledger begins one."
            )
        cursor = self.connection.cursor()
        try:
            # Takes the write lock now: a transaction that began by reading could not get it later.
            cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise LedgerError(
                f"The ledger's database does not let us write ({error}): is another process "
                "holding a transaction open?",
                retriable=True,
            ) from error
        return cursor

    def _commit(self, cursor: sqlite3.Cursor) -> None:
        if not self.connection.in_transaction:
            raise LedgerError(
                "The transaction was ended inside the loop: leave commit and rollback to the "
                "ledger, or a crash can make an effect happen twice."
            )
        self.connection.commit()
        cursor.close()

    def _rollback(self, cursor: sqlite3.Cursor) -> None:
        self.connection.rollback()
        cursor.close()

    def close(self) -> None:
        if self._owned:
            self.connection.close()
