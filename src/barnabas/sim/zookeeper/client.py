"""A client of a simulated ensemble: the coordination port, with a real client's manners.

It sends a sign of life every sixth of the session, takes an answer that is overdue by a third of
it for a broken connection, reconnects for as long as it takes, and learns only from the servers
that its session is over.
"""

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from barnabas.model.check import require
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import (
    CoordinationLostError,
    Node,
    Op,
    SessionEvent,
    SessionOverError,
)
from barnabas.ports.tree_paths import check_operations, check_path, check_size
from barnabas.sim.network import NOWHERE, on_machine
from barnabas.sim.zookeeper.connection import Connection
from barnabas.sim.zookeeper.messages import Answer, Kind, Request, Welcome
from barnabas.sim.zookeeper.server import Server

_RECONNECT_S: Final = (0.05, 0.5)
"""Between two attempts."""


class _State(Enum):
    NEW = "new"
    OPENING = "opening"
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    OVER = "over"
    CLOSED = "closed"


class SimCoordination:
    """The port, for one process on one machine. Made by `Ensemble.client`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        server: Server,
        machine: str,
        *,
        connect: Callable[["SimCoordination"], Connection],
        paused: Callable[[], bool],
        pick: Callable[[float, float], float],
        session_timeout_s: float,
        connect_timeout_s: float,
    ) -> None:
        self._loop = loop
        self._server = server
        self._machine = machine
        self._connect = connect
        self._paused = paused
        self._pick = pick
        self._timeout_s = session_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._state = _State.NEW
        self._session = 0
        self._zxid = 0
        self._proven_s = 0.0
        self._connection: Connection | None = None
        self._asked = 0
        self._waiting: dict[int, _Question] = {}
        self._attempts = 0
        self._timer: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] | None = None
        self._told: list[Callable[[SessionEvent], None]] = []
        self._watches: dict[str, list[Callable[[], None]]] = {}
        self._calls: dict[str, asyncio.TimerHandle] = {}
        with on_machine(machine):
            self._context = contextvars.copy_context()

    @property
    def machine(self) -> str:
        """Where it runs."""
        return self._machine

    @property
    def watched(self) -> Mapping[str, object]:
        """The paths that the servers tell it of."""
        return self._watches

    @property
    def ended(self) -> bool:
        """Whether it is closed or dead."""
        return self._state is _State.CLOSED

    # The port.

    @property
    def session(self) -> int:
        """The number of this session, or of the one that is over."""
        return self._session

    @property
    def session_timeout_s(self) -> float:
        """For how long the servers keep a session that they do not hear of."""
        return self._timeout_s

    def proven_s(self) -> float:
        """When the newest request had been sent that the leader has answered."""
        return self._proven_s

    def listen(self, told: Callable[[SessionEvent], None]) -> None:
        """Call `told` with what happens to the session."""
        self._told.append(told)

    async def open(self) -> None:
        """Begin a session."""
        require(self._state in (_State.NEW, _State.OVER), f"open: {self._state.value}")
        self._state = _State.OPENING
        self._session = 0
        self._opened = self._loop.create_future()
        self._attempt()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._opened
        except TimeoutError:
            self._end(_State.OVER)
            raise BarnabasError(
                f"No ZooKeeper answered within {self._connect_timeout_s:g} s."
            ) from None
        except asyncio.CancelledError:
            self._end(_State.OVER)
            raise

    async def sync(self) -> None:
        """Reads from now on include all that was committed before."""
        await self._ask(Kind.SYNC)

    async def get(self, path: str) -> Node | None:
        """The node, or None."""
        check_path(path)
        found: Node | None = await self._ask(Kind.GET, path)
        return found

    async def children(self, path: str) -> Sequence[str]:
        """Names of the children, sorted."""
        check_path(path)
        found: Sequence[str] = await self._ask(Kind.CHILDREN, path)
        return found

    async def tree(self, path: str) -> Mapping[str, Node]:
        """Every node strictly below `path`; not all read at one moment."""
        check_path(path)
        found: Mapping[str, Node] = await self._ask(Kind.TREE, path)
        return found

    async def commit(self, *operations: Op) -> None:
        """Do all of the operations or none."""
        check_operations(operations)
        check_size(operations)
        await self._ask(Kind.COMMIT, "/", operations)

    def watch(self, path: str, changed: Callable[[], None]) -> None:
        """Call `changed` after the node or the list of its children changed."""
        check_path(path)
        self._watches.setdefault(path, []).append(changed)

    async def close(self) -> None:
        """End the session, if it can be reached; otherwise it runs out by itself."""
        if self._state is _State.CLOSED:
            return
        self._told.clear()
        self._watches.clear()
        try:
            if self._state is _State.CONNECTED:
                await self._ask(Kind.CLOSE)
        except CoordinationLostError:
            return  # it runs out
        finally:
            self._end(_State.CLOSED)

    def kill(self) -> None:
        """The process is dead: nothing is told to anybody, and the session is not closed."""
        self._told.clear()
        self._watches.clear()
        self._end(_State.CLOSED, silent=True)

    def try_again(self) -> None:
        """The way may be open again."""
        if self._connection is not None:
            self._connection.to_server.try_again()
            self._connection.to_client.try_again()

    # Connecting.

    def _attempt(self) -> None:
        self._timer = None
        if self._connection is not None:
            self._connection.abandon()
        connection = self._connection = self._connect(self)
        session, timeout_s, zxid = self._session, self._timeout_s, self._zxid
        connection.to_server.send(
            lambda: self._server.connect(connection, session, timeout_s, zxid)
        )
        self._set_timer(self._timeout_s / 3, self._give_up_attempt)

    def _give_up_attempt(self) -> None:
        if self._paused():
            self._set_timer(self._timeout_s / 3, self._give_up_attempt)
        else:
            self._attempt()

    def welcomed(self, connection: Connection, welcome: Welcome) -> None:
        """The servers have answered the connection."""
        if connection is not self._connection:
            return
        if welcome.session == 0:
            self._end(_State.OVER)
            self._tell(SessionEvent.OVER)
            return
        self._session = welcome.session
        self._timeout_s = welcome.timeout_s
        self._zxid = max(self._zxid, welcome.zxid)
        self._state = _State.CONNECTED
        self._beat()
        self._tell(SessionEvent.CONNECTED)
        for path in self._watches:
            self._call_later(path)
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    def broken(self, connection: Connection) -> None:
        """The connection is gone."""
        if connection is self._connection:
            connection.abandon()
            self._connection = None
            self._lost()

    def _lost(self) -> None:
        was_connected = self._state is _State.CONNECTED
        if was_connected:
            self._state = _State.SUSPENDED
        self._set_timer(self._pick(*_RECONNECT_S), self._attempt)
        self._fail(CoordinationLostError("the connection to ZooKeeper broke"))
        if was_connected:
            self._tell(SessionEvent.SUSPENDED)

    # Asking.

    async def _ask(self, kind: Kind, path: str = "/", operations: Sequence[Op] = ()) -> Any:
        if self._state in (_State.NEW, _State.OVER, _State.CLOSED):
            raise SessionOverError("there is no session")
        if self._state is not _State.CONNECTED:
            raise CoordinationLostError("ZooKeeper can not be reached")
        answered: asyncio.Future[Any] = self._loop.create_future()
        self._send(kind, path, operations, answered)
        return await answered

    def _send(
        self,
        kind: Kind,
        path: str = "/",
        operations: Sequence[Op] = (),
        answered: "asyncio.Future[Any] | None" = None,
    ) -> None:
        connection = self._connection
        if connection is None:
            return
        self._asked += 1
        request = Request(self._asked, kind, path, operations)
        self._waiting[request.number] = _Question(kind, self._loop.time(), answered)
        connection.to_server.send(lambda: self._server.arrived(connection, request))

    def answered(self, connection: Connection, answer: Answer) -> None:
        """The servers have answered a request."""
        if connection is not self._connection:
            return
        question = self._waiting.pop(answer.number)
        self._zxid = max(self._zxid, answer.zxid)
        if question.kind in (Kind.SYNC, Kind.COMMIT):
            self._proven_s = max(self._proven_s, question.sent_s)
        question.settle(answer.value, answer.error)

    def _beat(self) -> None:
        """A sign of life, and a look whether answers are overdue."""
        self._set_timer(self._timeout_s / 6, self._beat)
        if self._paused():
            return
        oldest = next(iter(self._waiting.values()), None)
        if oldest is not None and oldest.sent_s < self._loop.time() - self._timeout_s / 3:
            if self._connection is not None:
                self.broken(self._connection)
            return
        self._send(Kind.SYNC)

    # News.

    def notified(self, connection: Connection, path: str) -> None:
        """What stands at a watched path has changed."""
        if connection is self._connection:
            self._call_later(path)

    def _call_later(self, path: str) -> None:
        if path not in self._calls:
            delay = self._pick(0, self._server.faults.watch_delay_s)
            self._calls[path] = self._loop.call_later(
                delay, self._call, path, context=self._context.copy()
            )

    def _call(self, path: str) -> None:
        del self._calls[path]
        for changed in list(self._watches.get(path, ())):
            changed()

    def _tell(self, event: SessionEvent) -> None:
        # What is started in answer runs on this machine, whoever's doing the event was.
        for told in list(self._told):
            self._context.copy().run(told, event)

    # Ending.

    def _end(self, state: _State, *, silent: bool = False) -> None:
        self._state = state
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.abandon()
            self._connection = None
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()
        if not silent:
            self._fail(SessionOverError("the session is over"))

    def _fail(self, error: CoordinationLostError) -> None:
        waiting, self._waiting = self._waiting, {}
        for question in waiting.values():
            question.settle(None, error)

    def _set_timer(self, delay: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, then, context=NOWHERE)


class _Question:
    """A request that is not answered yet."""

    def __init__(self, kind: Kind, sent_s: float, answered: "asyncio.Future[Any] | None") -> None:
        self.kind = kind
        self.sent_s = sent_s
        self._answered = answered

    def settle(self, value: object, error: Exception | None) -> None:
        if self._answered is None or self._answered.done():
            return
        if error is None:
            self._answered.set_result(value)
        else:
            self._answered.set_exception(error)
