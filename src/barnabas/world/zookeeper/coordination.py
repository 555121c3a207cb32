"""The coordination port on a ZooKeeper ensemble."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from kazoo.protocol.states import KazooState, KeeperState

from barnabas.model.check import require
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import (
    CoordinationError,
    CoordinationLostError,
    Node,
    Op,
    SessionEvent,
    SessionOverError,
)
from barnabas.ports.tree_paths import check_operations, check_path, check_size
from barnabas.world.zookeeper.one_session import OneSession
from barnabas.world.zookeeper.options import ZooKeeperOptions
from barnabas.world.zookeeper.probing import is_serving, why_nobody_answers
from barnabas.world.zookeeper.requests import Requests
from barnabas.world.zookeeper.watches import Watches

BEATS_A_SESSION: Final = 6
"""kazoo's own signs of life are seen by nobody: these are, and prove that the session lives."""

_BEATS_WITHOUT_ANYTHING: Final = 3 * BEATS_A_SESSION
"""Neither an answer nor an attempt to connect for three sessions: kazoo hangs (its issue 241)."""

_BEATS_CUT_OFF: Final = 3 * BEATS_A_SESSION
"""After so long without a connection it is looked, once in a session, whether servers run that do
not want us: one that knows less than we have seen refuses to go on with our session, and neither
it nor kazoo will ever say that the session is over."""


class _State(Enum):
    NEW = "new"
    OPENING = "opening"
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    OVER = "over"
    CLOSED = "closed"


class ZooKeeperCoordination:
    """The tree below the chroot of `options`, for one process.

    `failed` is called with one sentence when this object can not be used any more in a way that
    only a new process can mend.
    """

    def __init__(self, options: ZooKeeperOptions, failed: Callable[[str], None]) -> None:
        options.check()
        self._options = options
        self._failed = failed
        self._state = _State.NEW
        self._session: OneSession | None = None
        self._number = 0
        self._proven_s = 0.0
        self._connected: asyncio.Future[None] | None = None
        self._told: list[Callable[[SessionEvent], None]] = []
        self._requests = Requests(options.chroot())
        self._watches = Watches(failed)
        self._heart: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    # The session.

    @property
    def session(self) -> int:
        """The number of this session, or of the one that is over."""
        return self._number

    @property
    def session_timeout_s(self) -> float:
        """What the servers agreed to."""
        return self._session.timeout_s if self._session else self._options.session_timeout_s

    def proven_s(self) -> float:
        """When the newest request had been sent that the leader has answered."""
        return self._session.proven_s if self._session else self._proven_s

    def listen(self, told: Callable[[SessionEvent], None]) -> None:
        """Call `told` on the loop with what happens to the session."""
        self._told.append(told)

    async def open(self) -> None:
        """Begin a session. Raises BarnabasError, one sentence, when none comes about in time."""
        require(self._state in (_State.NEW, _State.OVER), f"open: {self._state.value}")
        self._state = _State.OPENING
        self._connected = asyncio.get_running_loop().create_future()
        session = self._session = self._new_session()
        try:
            session.start()
            async with asyncio.timeout(self._options.connect_timeout_s):
                await self._connected
                await session.sync()
                await self._requests.make_chroot(session)
        except (TimeoutError, CoordinationLostError):
            self._let_go(session)
            raise BarnabasError(await why_nobody_answers(self._options)) from None
        except CoordinationError as error:
            self._let_go(session)
            raise BarnabasError(
                f"ZooKeeper at {self._options.connect} refuses us ({error})."
            ) from error
        except BaseException:
            self._let_go(session)
            raise
        self._begin(session)

    def _begin(self, session: OneSession) -> None:
        self._number = session.number
        self._heart = self._start(self._beat(session))
        self._in_touch(session)

    def _let_go(self, session: OneSession) -> None:
        """Nothing comes of this session any more; its threads end when they can."""
        if self._state is not _State.CLOSED:
            self._state = _State.OVER
        self._proven_s = max(self._proven_s, session.proven_s)
        self._session = None
        self._watches.disconnected()
        if self._heart is not None:
            self._heart.cancel()
        self._start(session.stop())

    def _new_session(self) -> OneSession:
        # Late news of an earlier session must not be taken for news of this one.
        def told(state: KazooState, exactly: KeeperState) -> None:
            if self._session is session:
                self._hear(session, state, exactly)

        session = OneSession(self._options, told)
        return session

    def _hear(self, session: OneSession, state: KazooState, exactly: KeeperState) -> None:
        if state == KazooState.LOST:
            self._lost(session, exactly)
        elif self._state is _State.OPENING:
            if state == KazooState.CONNECTED and self._connected and not self._connected.done():
                self._connected.set_result(None)
        elif state == KazooState.CONNECTED and self._state is _State.SUSPENDED:
            self._in_touch(session)
            self._start(self._prove(session))
        elif state == KazooState.SUSPENDED and self._state is _State.CONNECTED:
            self._state = _State.SUSPENDED
            self._watches.disconnected()
            self._tell(SessionEvent.SUSPENDED)

    def _in_touch(self, session: OneSession) -> None:
        self._state = _State.CONNECTED
        self._watches.connected(session)
        self._tell(SessionEvent.CONNECTED)

    def _lost(self, session: OneSession, exactly: KeeperState) -> None:
        refused = exactly == KeeperState.AUTH_FAILED
        why = "ZooKeeper does not accept zookeeper.auth" if refused else "the session is over"
        if self._state is _State.OPENING:
            if self._connected and not self._connected.done():
                self._connected.set_exception(CoordinationError(why))
            return
        self._let_go(session)
        if exactly != KeeperState.EXPIRED_SESSION:
            self._failed(f"The connection to ZooKeeper has ended for good ({why}).")
        self._tell(SessionEvent.OVER)

    async def _beat(self, session: OneSession) -> None:
        """Prove that the session lives, and notice when nothing moves any more."""
        still, seen = 0, (0.0, 0.0)
        cut_off = refused = 0
        while self._session is session:
            if self._state is _State.CONNECTED:
                cut_off = refused = 0
                await self._prove(session)
            else:
                cut_off += 1
                if cut_off > _BEATS_CUT_OFF and cut_off % BEATS_A_SESSION == 0:
                    refused = refused + 1 if await is_serving(self._options) else 0
                if refused > 1 and self._is_cut_off(session):
                    self._failed(
                        f"ZooKeeper at {self._options.connect} runs, but does not go on with the "
                        "session of this broker: it is another one than before, or has lost what "
                        "it knew; restore it, and start the broker again."
                    )
                    return
            # In beats, not in seconds: a process that was stopped has seen no beats either.
            moved, seen = seen, (session.proven_s, session.tried_s)
            still = still + 1 if moved == seen else 0
            if still >= _BEATS_WITHOUT_ANYTHING and self._session is session:
                self._failed("The ZooKeeper client hangs: it neither asks nor connects any more.")
                return
            await asyncio.sleep(session.timeout_s / BEATS_A_SESSION)

    def _is_cut_off(self, session: OneSession) -> bool:
        return self._session is session and self._state is _State.SUSPENDED

    async def _prove(self, session: OneSession) -> None:
        # What became of the session is told by kazoo.
        with contextlib.suppress(CoordinationLostError):
            await session.sync()

    def _tell(self, event: SessionEvent) -> None:
        for told in list(self._told):
            told(event)

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    # The tree.

    def _open_session(self) -> OneSession:
        """The session, or the error that says why there is none: requests belong to the session
        in which they are made, and never reach another."""
        if self._session is None or self._state is _State.OPENING:
            raise SessionOverError("there is no ZooKeeper session")
        if self._state is _State.SUSPENDED:
            raise CoordinationLostError("ZooKeeper can not be reached")
        return self._session

    async def sync(self) -> None:
        """What is read from now on includes all that anybody had committed before this call."""
        await self._open_session().sync()

    async def get(self, path: str) -> Node | None:
        """The node, or None."""
        check_path(path)
        return await self._requests.get(self._open_session(), path)

    async def children(self, path: str) -> Sequence[str]:
        """Names of the children, sorted; empty when there is no such node."""
        check_path(path)
        return await self._requests.children(self._open_session(), path)

    async def tree(self, path: str) -> Mapping[str, Node]:
        """Every node strictly below `path`, by full path; not all read at one moment."""
        check_path(path)
        return await self._requests.tree(self._open_session(), path)

    async def commit(self, *operations: Op) -> None:
        """Do all of the operations or none. Raises the error of the first that fails."""
        check_operations(operations)
        check_size(operations, len(self._options.chroot()))
        await self._requests.commit(self._open_session(), operations)

    def watch(self, path: str, changed: Callable[[], None]) -> None:
        """Call `changed` on the loop after the node or the list of its children changed."""
        check_path(path)
        self._watches.add(self._requests.at(path), changed)

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish, if ZooKeeper can be reached."""
        if self._state is _State.CLOSED:
            return
        self._state = _State.CLOSED
        self._told.clear()
        self._watches.close()
        if self._session is not None:
            self._let_go(self._session)
        while self._tasks:
            await asyncio.wait(list(self._tasks))
