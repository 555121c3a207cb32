"""A kazoo client that lives for one session and no longer.

Left alone, kazoo begins a new session when one has expired, and sends what is still in its queue
there: a write would slip into a session that its author knows nothing of. So here each session
has a client of its own, which is not let near a server again once its session is over.

kazoo works on threads of its own. Whatever they have to say is handed to the loop; nothing is
ever asked of kazoo from one of them.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from operator import methodcaller
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, WriterNotClosedException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.security import CREATOR_ALL_ACL

from barnabas.ports.coordination import CoordinationLostError
from barnabas.world.zookeeper.errors import translated
from barnabas.world.zookeeper.handler import Handler
from barnabas.world.zookeeper.options import ZooKeeperOptions

_RECONNECT_S_MAX: Final = 1.0
"""Between two attempts: kazoo's own limit is an hour."""


class OneSession:
    """`told` is called on the loop with what kazoo says: its simple state, and its exact one."""

    def __init__(
        self, options: ZooKeeperOptions, told: Callable[[KazooState, KeeperState], None]
    ) -> None:
        self.number = 0
        """The session's number, once it is connected."""
        self.timeout_s = options.session_timeout_s
        """What was asked for, and what the servers agreed to once it is connected."""
        self.proven_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._told = told
        self._inbox: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._woken = False
        self._handler = Handler(options.session_timeout_s, len(options.hosts()))
        tls = options.tls
        self._client = KazooClient(
            hosts=options.servers(),
            timeout=options.session_timeout_s,
            handler=self._handler,
            auth_data=[("digest", options.auth)] if options.auth else None,
            default_acl=CREATOR_ALL_ACL if options.auth else None,
            connection_retry={
                "max_tries": -1,
                "delay": 0.1,
                "max_delay": _RECONNECT_S_MAX,
                "sleep_func": self._handler.sleep_func,
            },
            use_ssl=tls is not None,
            ca=tls.ca if tls else None,
            certfile=tls.certificate if tls else None,
            # kazoo leaves a certificate out that has no key.
            keyfile=(tls.key or tls.certificate) if tls else None,
            keyfile_password=tls.key_password if tls else None,
            check_hostname=tls.check_hostname if tls else False,
        )
        self._client.add_listener(self._state_changed)
        self._note_what_was_agreed()

    def start(self) -> None:
        """Begin to connect, on kazoo's threads."""
        self._client.start_async()

    @property
    def tried_s(self) -> float:
        """When kazoo last tried to reach a server."""
        return self._handler.tried_s

    def send(self, call: Callable[[KazooClient], Any]) -> "asyncio.Future[Any]":
        """Make one of kazoo's asynchronous calls now: what is sent first is done first."""
        answered: asyncio.Future[Any] = self._loop.create_future()
        # Who has given up waiting at the very moment of a failure does not want to hear of it.
        answered.add_done_callback(lambda each: each.cancelled() or each.exception())
        call(self._client).rawlink(lambda result: self._hand_over(_settle, answered, result))
        return answered

    async def ask(
        self, about: str, call: Callable[[KazooClient], Any], *, proves: bool = False
    ) -> Any:
        """Make one of kazoo's asynchronous calls and wait for its answer.

        `proves`: it goes by way of the leader, so its answer shows that the session lived when it
        was sent. A member that is cut off from the others answers reads all the same.
        """
        sent_s = time.monotonic()
        value = await self.answer(about, self.send(call))
        if proves:
            self.proven_s = max(self.proven_s, sent_s)
        return value

    async def sync(self) -> None:
        """Catch up with the leader. Nothing is cheaper that proves the session."""
        await self.ask("/", methodcaller("sync_async", "/"), proves=True)

    async def answer(self, about: str, answered: "asyncio.Future[Any]") -> Any:
        """Wait for an answer, but not for longer than the session lasts."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await answered
        except TimeoutError:
            raise CoordinationLostError(
                f"{about}: ZooKeeper gave no answer within {self.timeout_s:g} s"
            ) from None
        except (KazooException, KazooTimeoutError) as error:
            raise translated(error, about) from error

    async def stop(self) -> None:
        """End the session if it is connected, and the threads. May take a session's time."""
        self._handler.forbid()
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        try:
            self._client.stop()
        except WriterNotClosedException:
            return  # a thread that hangs in the network: it ends with the process
        self._client.close()

    def when_fired(self, function: Callable[[], None]) -> Callable[[WatchedEvent], None]:
        """A watch for kazoo that calls `function` on the loop."""

        def fired(event: WatchedEvent) -> None:
            # Of that type are those that kazoo gives up because the connection broke.
            if event.type != EventType.NONE:
                self._hand_over(function)

        return fired

    def _state_changed(self, state: KazooState) -> None:
        """On kazoo's thread, before it does anything else about it."""
        if state == KazooState.LOST:
            self._handler.forbid()
        self._hand_over(self._told, state, self._client.client_state)

    def _hand_over(self, function: Callable[..., object], *arguments: object) -> None:
        """On any thread. The loop is woken once for all that comes before it looks."""
        self._inbox.append((function, arguments))
        if self._woken:
            return
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            return  # the loop is closed: there is nobody to be told

    def _look(self) -> None:
        # First this: what comes in from now on wakes the loop again.
        self._woken = False
        while self._inbox:
            function, arguments = self._inbox.popleft()
            self._loop.call_soon(function, *arguments)

    def _note_what_was_agreed(self) -> None:
        """kazoo keeps to itself how long a session the servers agreed to; two thirds of it is what
        it returns from connecting."""
        connection = self._client._connection
        connect = connection._connect

        def noting(*arguments: object) -> tuple[float, float]:
            read_ms, connect_ms = connect(*arguments)
            self.timeout_s = read_ms * 1.5 / 1000
            self.number = int(self._client._session_id)
            return read_ms, connect_ms

        connection._connect = noting


def _settle(answered: "asyncio.Future[Any]", result: Any) -> None:
    if answered.done():
        return
    if result.successful():
        answered.set_result(result.value)
    else:
        answered.set_exception(result.exception)
