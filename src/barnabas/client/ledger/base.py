"""`Ledger`: what was handled, remembered in the same transaction as the effect.

One row for each group and partition says which offset comes next. A message below it was handled
already; one at or above it is handled in a transaction that ends by moving the row from the value
it had at the beginning (compare and set). So a crash undoes the effect together with the memory of
it, and of two consumers that handle one message at once only one can commit.

That order is all it needs: each partition's messages come in the order of their offsets.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from barnabas.client.errors import FencedError, LedgerError, config_error
from barnabas.client.message import Transaction
from barnabas.model.topics import TopicPartition

CursorT = TypeVar("CursorT", bound=Transaction)

DEFAULT_TABLE: Final = "barnabas_ledger"
DEFAULT_GROUP: Final = "default"
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")


class Ledger(ABC, Generic[CursorT]):
    """Remembers what was handled. Not for two threads at once: each has one of its own.

    The table is made at first use. Effects must go through the cursor that is lent: what another
    connection writes is not undone with it.
    """

    _mark: str
    """How the database writes a parameter."""

    def __init__(self, table: str = DEFAULT_TABLE) -> None:
        if not _IDENTIFIER.fullmatch(table):
            config_error(f"{table!r} can not be the name of a table.")
        self.table = table
        self._prepared = False

    @abstractmethod
    def _begin(self) -> CursorT:
        """Begin a transaction."""

    @abstractmethod
    def _commit(self, cursor: CursorT) -> None:
        """Commit it; LedgerError when it is not open any more."""

    @abstractmethod
    def _rollback(self, cursor: CursorT) -> None:
        """Undo it, in whatever state it is."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection, when the ledger opened it."""

    def position(self, place: TopicPartition, *, group: str = DEFAULT_GROUP) -> int | None:
        """The next offset to handle; None when nothing is known of the partition."""
        with self._short() as cursor:
            return self._read(cursor, group, place)

    def begin_at(self, place: TopicPartition, offset: int, *, group: str = DEFAULT_GROUP) -> int:
        """Remember where to begin, unless something is known already; the position then known."""
        with self._short() as cursor:
            self._insert(cursor, group, place, offset)
            found = self._read(cursor, group, place)
        return offset if found is None else found

    def move(self, place: TopicPartition, offset: int, *, group: str = DEFAULT_GROUP) -> None:
        """Say by hand what comes next: lower to handle again, higher to leave out.

        No consumer of the group may be running.
        """
        if offset < 0:
            config_error(f"An offset is 0 or more, not {offset}.")
        with self._short() as cursor:
            self._delete(cursor, group, place)
            self._insert(cursor, group, place, offset)

    def forget(self, place: TopicPartition, *, group: str = DEFAULT_GROUP) -> None:
        """Know nothing of a partition any more, as when its topic was made anew."""
        with self._short() as cursor:
            self._delete(cursor, group, place)

    def open(
        self, messages: Iterable[tuple[TopicPartition, int]], *, group: str = DEFAULT_GROUP
    ) -> "Handling[CursorT]":
        """Begin a transaction for these messages, given by place and offset.

        `Handling.fresh` tells which of them were not handled before.
        """
        self._prepare()
        cursor = self._begin()
        try:
            return Handling(self, cursor, group, list(messages))
        except BaseException:
            self._rollback(cursor)
            raise

    @contextmanager
    def once(self, message: object, *, group: str = DEFAULT_GROUP) -> Iterator[CursorT | None]:
        """Handle a message of any client library once: `with ledger.once(message) as cursor:`.

        Lends a cursor for the effects and commits at the end; lends None when the message was
        handled before. An exception in the block undoes everything. FencedError at the end of the
        block means that somebody else handled it meanwhile, and that this was undone.
        """
        place, offset = place_of(message)
        handling = self.open([(place, offset)], group=group)
        if not handling.fresh:
            handling.rollback()
            yield None
            return
        try:
            yield handling.cursor
        except BaseException:
            handling.rollback()
            raise
        handling.commit()

    def __enter__(self) -> "Ledger[CursorT]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _short(self) -> Iterator[CursorT]:
        """A transaction of the ledger's own."""
        self._prepare()
        cursor = self._begin()
        try:
            yield cursor
        except BaseException:
            self._rollback(cursor)
            raise
        self._commit(cursor)

    def _prepare(self) -> None:
        if self._prepared:
            return
        cursor = self._begin()
        try:
            self._make_table(cursor)
        except BaseException:
            self._rollback(cursor)
            raise
        self._commit(cursor)
        self._prepared = True

    def _make_table(self, cursor: CursorT) -> None:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self.table} ("
            "consumer_group TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, "
            "next_offset BIGINT NOT NULL, PRIMARY KEY (consumer_group, topic, partition))"
        )

    def _sql(self, text: str) -> str:
        return text.replace("?", self._mark).replace("LEDGER", self.table)

    def _read(self, cursor: CursorT, group: str, place: TopicPartition) -> int | None:
        cursor.execute(
            self._sql(
                "SELECT next_offset FROM LEDGER "
                "WHERE consumer_group = ? AND topic = ? AND partition = ?"
            ),
            (group, *place),
        )
        row: Any = cursor.fetchone()
        return None if row is None else int(first_column(row))

    def _insert(self, cursor: CursorT, group: str, place: TopicPartition, offset: int) -> bool:
        cursor.execute(
            self._sql(
                "INSERT INTO LEDGER (consumer_group, topic, partition, next_offset) "
                "VALUES (?, ?, ?, ?) ON CONFLICT (consumer_group, topic, partition) DO NOTHING"
            ),
            (group, *place, offset),
        )
        return cursor.rowcount == 1

    def _delete(self, cursor: CursorT, group: str, place: TopicPartition) -> None:
        cursor.execute(
            self._sql(
                "DELETE FROM LEDGER WHERE consumer_group = ? AND topic = ? AND partition = ?"
            ),
            (group, *place),
        )

    def _move_from(
        self, cursor: CursorT, group: str, place: TopicPartition, was: int | None, then: int
    ) -> bool:
        """Compare and set; False when the row is not as it was."""
        if was is None:
            return self._insert(cursor, group, place, then)
        cursor.execute(
            self._sql(
                "UPDATE LEDGER SET next_offset = ? "
                "WHERE consumer_group = ? AND topic = ? AND partition = ? AND next_offset = ?"
            ),
            (then, group, *place, was),
        )
        return cursor.rowcount == 1


class Handling(Generic[CursorT]):
    """An open transaction for some messages."""

    def __init__(
        self,
        ledger: Ledger[CursorT],
        cursor: CursorT,
        group: str,
        messages: list[tuple[TopicPartition, int]],
    ) -> None:
        self._ledger = ledger
        self._group = group
        self._open = True
        self.cursor = cursor
        self._was: dict[TopicPartition, int | None] = {
            place: ledger._read(cursor, group, place) for place, _ in messages
        }
        self.fresh = [
            (place, offset) for place, offset in messages if offset >= (self._was[place] or 0)
        ]
        """Those that were not handled before."""

    @property
    def then(self) -> Mapping[TopicPartition, int]:
        """The positions once this is committed."""
        found: dict[TopicPartition, int] = {}
        for place, offset in self.fresh:
            found[place] = max(offset + 1, found.get(place, 0))
        return found

    def commit(self) -> None:
        """Effect and memory together, or FencedError and neither."""
        self._end()
        ledger = self._ledger
        try:
            # In one order for all, so that two never wait for each other.
            for place, then in sorted(self.then.items()):
                if not ledger._move_from(self.cursor, self._group, place, self._was[place], then):
                    raise FencedError(
                        f"Another consumer of {self._group} handled {place.topic} "
                        f"[{place.partition}] meanwhile: this transaction was undone.",
                        code="FENCED",
                    )
            ledger._commit(self.cursor)
        except BaseException:
            ledger._rollback(self.cursor)
            raise

    def rollback(self) -> None:
        """Undo the effect."""
        self._end()
        self._ledger._rollback(self.cursor)

    def _end(self) -> None:
        if not self._open:
            raise LedgerError("This transaction has ended already.")
        self._open = False


def first_column(row: Any) -> Any:
    """Of a row in whatever shape the connection's owner likes rows."""
    return next(iter(row.values() if isinstance(row, Mapping) else row))


def place_of(message: object) -> tuple[TopicPartition, int]:
    """Where a message of any client library stands: theirs are attributes or methods."""
    topic, partition, offset = (
        _told(message, "topic"),
        _told(message, "partition"),
        _told(message, "offset"),
    )
    if not isinstance(topic, str) or not isinstance(partition, int) or not isinstance(offset, int):
        config_error(f"{message!r} does not tell its topic, partition and offset.")
    return TopicPartition(topic, partition), offset


def _told(message: object, name: str) -> object:
    value = getattr(message, name, None)
    return value() if callable(value) else value
