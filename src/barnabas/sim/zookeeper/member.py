"""One server's copy of the tree: it follows the leader's, a little later."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.sim.network import NOWHERE
from barnabas.sim.zookeeper.connection import Connection
from barnabas.sim.zookeeper.tree import Transaction, Tree

_STEP_S: Final = 1e-6


class Member:
    """Serves reads and watches of the connections that it has."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.tree = Tree()
        self.connections: dict[Connection, None] = {}
        self._loop = loop
        self._latest = 0.0
        self._on_the_way = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def follow(self, transaction: Transaction, lag_s: float) -> None:
        """Do what the leader did, `lag_s` later or when its turn comes."""
        if lag_s == 0 and self._on_the_way == 0:
            self._apply(transaction)
            return
        self._on_the_way += 1
        self._latest = max(self._latest + _STEP_S, self._loop.time() + lag_s)
        self._loop.call_at(self._latest, self._arrived, transaction, context=NOWHERE)

    def when_at(self, zxid: int, then: Callable[[], None]) -> None:
        """Call `then` once everything up to `zxid` is done here."""
        if self.tree.zxid >= zxid:
            then()
        else:
            self._waiting.append((zxid, then))

    def _arrived(self, transaction: Transaction) -> None:
        self._on_the_way -= 1
        self._apply(transaction)

    def _apply(self, transaction: Transaction) -> None:
        self.tree.apply(transaction)
        for connection in [each for each in self.connections if not each.served]:
            del self.connections[connection]
        for connection in self.connections:
            for path in transaction.touched:
                if path in connection.peer.watched:
                    connection.notify(path)
        # A commit of a busier client may wait for more than one of a later one does.
        ready = [each for each in self._waiting if each[0] <= transaction.zxid]
        self._waiting = deque(each for each in self._waiting if each[0] > transaction.zxid)
        for _, then in ready:
            then()
