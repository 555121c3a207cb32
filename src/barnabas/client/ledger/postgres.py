"""`PostgresLedger`: the ledger in a PostgreSQL database, through psycopg 3.

psycopg comes with `pip install 'barnabas[postgres]'` and is imported when a ledger is made.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from barnabas.client.errors import LedgerError
from barnabas.client.ledger.base import DEFAULT_TABLE, Ledger, first_column

if TYPE_CHECKING:
    import psycopg

    PostgresCursor = psycopg.Cursor[Any]
else:
    PostgresCursor = Any


class PostgresLedger(Ledger[PostgresCursor]):
    """At an address (`postgresql://…` or `dbname=…`), or on a psycopg connection you have.

    A given connection must have no open transaction, and its effects go through the ledger only.
    """

    _mark = "%s"

    def __init__(
        self, database: "str | psycopg.Connection[Any]", *, table: str = DEFAULT_TABLE
    ) -> None:
        super().__init__(table)
        try:
            import psycopg
        except ImportError as error:
            raise LedgerError(
                "A ledger in PostgreSQL needs psycopg: pip install 'barnabas[postgres]'."
            ) from error
        self._owned = isinstance(database, str)
        self._idle = psycopg.pq.TransactionStatus.IDLE
        if isinstance(database, str):
            try:
                self.connection = psycopg.connect(database, autocommit=True)
            except psycopg.OperationalError as error:
                raise LedgerError(
                    f"The ledger's database does not answer: {str(error).strip()}", retriable=True
                ) from error
        else:
            self.connection = database
        self._transaction: AbstractContextManager[psycopg.Transaction] | None = None

    def _begin(self) -> PostgresCursor:
        if self.connection.info.transaction_status != self._idle:
            raise LedgerError(
                "The connection has an open transaction: commit it before the ledger begins one."
            )
        transaction = self.connection.transaction()
        # psycopg forbids commit() and rollback() inside it, so that nobody ends it but the ledger.
        transaction.__enter__()
        self._transaction = transaction
        return self.connection.cursor()

    def _make_table(self, cursor: PostgresCursor) -> None:
        # A role that may not create tables can use one that is there; and of several consumers
        # that start at once only one makes it (two at once would collide in the catalogue).
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self.table,))
        cursor.execute("SELECT to_regclass(%s)", (self.table,))
        row = cursor.fetchone()
        if row is None or first_column(row) is None:
            super()._make_table(cursor)

    def _commit(self, cursor: PostgresCursor) -> None:
        cursor.close()
        self._leave(None)

    def _rollback(self, cursor: PostgresCursor) -> None:
        from psycopg import Rollback

        cursor.close()
        if self._transaction is not None:
            self._leave(Rollback())

    def _leave(self, error: "psycopg.Rollback | None") -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            raise LedgerError("This transaction has ended already.")
        transaction.__exit__(None if error is None else type(error), error, None)

    def close(self) -> None:
        if self._owned:
            self.connection.close()
