"""Ledgers: a database remembers which messages were handled, in the transaction of their effect.

Knows: positions, transactions and compare-and-set, for SQLite and for PostgreSQL.
Does not know: brokers, groups, or how messages come.
"""

from barnabas.client.ledger.base import Handling, Ledger
from barnabas.client.ledger.postgres import PostgresLedger
from barnabas.client.ledger.sqlite import SqliteLedger

__all__ = ["Handling", "Ledger", "PostgresLedger", "SqliteLedger"]
