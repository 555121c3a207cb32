"""The tree of a single broker, in one SQLite file.

Everything is done on the calling thread, fsync included, although that may hold up the loop for
some milliseconds. Metadata changes are rare (a topic is created, a block of producer ids is
taken), a broker alone never changes its in-sync replicas, and in exchange the order of commits is
the order of calls, a cancelled caller can not leave half a step behind, and the same store runs
under a simulated loop, which has no threads. A commit of many operations (a topic of ten thousand
partitions) lets the loop go on now and then; who asks for something meanwhile waits for its end.

There is one session at a time: it begins when the file is opened, and nothing but `close` (or the
end of the process) can end it.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from barnabas.model.check import require
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import Node, Op, SessionEvent, SessionOverError
from barnabas.ports.tree_paths import check_operations, check_path, prefix_of
from barnabas.world.embedded_file import open_file
from barnabas.world.embedded_operations import Operations

_OPERATIONS_AT_ONCE: Final = 256
"""Between two turns of the loop: a millisecond or two."""

_SESSION_TIMEOUT_S: Final = 18.0
"""Kafka's default for ZooKeeper. Here it says nothing: the session lasts as long as its process."""


class EmbeddedCoordination:
    """Coordination for one process: `path` is a file, or ":memory:" for nothing durable."""

    def __init__(self, path: str) -> None:
        """Open or create the store and end every earlier session.

        Raises BarnabasError when the file is damaged, in use, or not ours.
        """
        self._path = path
        self._one_at_a_time = asyncio.Lock()
        self._watches: list[_Watch] = []
        self._told: list[Callable[[SessionEvent], None]] = []
        self._opened = False
        self._closed = False
        self._database, self._session = open_file(path)

    @property
    def session(self) -> int:
        """Counts how often the store was opened."""
        return self._session

    @property
    def session_timeout_s(self) -> float:
        """A number like any other: the session does not run out."""
        return _SESSION_TIMEOUT_S

    def proven_s(self) -> float:
        """Now: nobody else could end the session."""
        return asyncio.get_running_loop().time()

    def listen(self, told: Callable[[SessionEvent], None]) -> None:
        """Call `told` when the session is opened; nothing else happens to it."""
        self._told.append(told)

    async def open(self) -> None:
        """Tell that the session has begun, which it did with the object."""
        require(not self._opened, "the session is open already")
        self._check_open()
        self._opened = True
        for told in self._told:
            told(SessionEvent.CONNECTED)
        for watch in self._watches:
            watch.tell(asyncio.get_running_loop())

    async def sync(self) -> None:
        """Nothing to do: there is one copy, and one who writes it."""
        async with self._one_at_a_time:
            self._check_open()

    async def get(self, path: str) -> Node | None:
        """The node, or None."""
        check_path(path)
        rows = await self._query(
            "SELECT data, version, created, owner FROM nodes WHERE path = ?", path
        )
        return Node(*rows[0]) if rows else None

    async def children(self, path: str) -> Sequence[str]:
        """Names of the children, sorted; empty when there is no such node."""
        check_path(path)
        rows = await self._query("SELECT path FROM nodes WHERE parent = ? ORDER BY path", path)
        return [child.rpartition("/")[2] for (child,) in rows]

    async def tree(self, path: str) -> Mapping[str, Node]:
        """Every node strictly below `path`, by full path."""
        check_path(path)
        prefix = prefix_of(path)
        # "0" is the character after "/": between the two lies all that begins with the prefix.
        rows = await self._query(
            "SELECT path, data, version, created, owner FROM nodes"
            " WHERE path > ? AND path < ? ORDER BY path",
            prefix,
            prefix[:-1] + "0",
        )
        return {below: Node(*rest) for below, *rest in rows}

    async def commit(self, *operations: Op) -> None:
        """Do all of the operations or none, durably. Raises the error of the first that fails."""
        check_operations(operations)
        async with self._one_at_a_time:
            self._check_open()
            touched = await self._transact(operations)
        loop = asyncio.get_running_loop()
        for watch in self._watches:
            if watch.path in touched:
                watch.tell(loop)

    def watch(self, path: str, changed: Callable[[], None]) -> None:
        """Call `changed` on the loop after the node or the list of its children changed."""
        check_path(path)
        self._watches.append(_Watch(path, changed))

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish. A second call does nothing."""
        for watch in self._watches:
            watch.silenced = True
        self._watches.clear()
        async with self._one_at_a_time:
            if self._closed:
                return
            self._closed = True
            self._end_session()

    def _end_session(self) -> None:
        try:
            self._database.execute("DELETE FROM nodes WHERE owner != 0")
        except sqlite3.Error as error:
            # Nothing is lost: whoever opens the store next begins by removing them.
            raise self._cannot("written", error) from error
        finally:
            self._database.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionOverError(f"the metadata store {self._path} is closed")

    async def _query(self, statement: str, *parameters: str) -> list[tuple[Any, ...]]:
        async with self._one_at_a_time:
            self._check_open()
            try:
                return self._database.execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                raise self._cannot("read", error) from error

    async def _transact(self, operations: Sequence[Op]) -> Mapping[str, None]:
        transaction = Operations(self._database, self._session)
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for count, _ in enumerate(transaction.apply(operations), 1):
                    if count % _OPERATIONS_AT_ONCE == 0:
                        await asyncio.sleep(0)
                self._database.execute("COMMIT")
            finally:
                # After success, or when SQLite has given up the transaction itself, there is none.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._cannot("written", error) from error
        return transaction.touched

    def _cannot(self, what: str, error: sqlite3.Error) -> BarnabasError:
        return BarnabasError(f"The metadata store {self._path} can not be {what}: {error}.")


class _Watch:
    """One callback. Changes between the first and the call it leads to are told together."""

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        self.path = path
        self.silenced = False
        self._changed = changed
        self._scheduled = False

    def tell(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._call)

    def _call(self) -> None:
        self._scheduled = False
        if not self.silenced:
            self._changed()
