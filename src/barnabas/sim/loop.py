"""An event loop whose time is a number.

Nothing is ever waited for: when no callback is ready, the clock is set to the next timer. So a
day of timeouts takes milliseconds, and the same seed gives the same run. What asyncio promises
holds here too: callbacks run in the order they were scheduled, timers not before their time.
"""

import asyncio
import heapq
import random
import socket
import weakref
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from barnabas.sim.network import SimNetwork, SimServer
from barnabas.sim.process import Process, current_process, process_of
from barnabas.sim.trace import Trace

T = TypeVar("T")

SPINS_MAX = 100_000
"""Turns of the loop at one moment of virtual time; more is a loop that never waits."""


_CLOSINGS_MAX = 100
"""How often a coroutine may wait again while it is being ended."""


class DeadlockError(Exception):
    """Nothing is ready and nothing is scheduled: whatever is awaited will never come."""


class SpinningError(Exception):
    """Callbacks keep scheduling callbacks and time stands still."""


class UnhandledError(Exception):
    """Exceptions that nobody caught: in a callback, a protocol, or a task nobody awaited."""


class SimLoop(BaseEventLoop):
    """Virtual time and an in-memory network, from one seed.

    An *event* is one callback that the loop runs: a step of a task, a timer that has come, a
    delivery of bytes. Cancelled callbacks, and those of processes that stand still or are dead,
    are none.
    """

    _ready: "deque[asyncio.Handle]"
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, seed: int | str, *, spins_max: int = SPINS_MAX) -> None:
        super().__init__()
        self.seed = seed
        self.trace = Trace()
        self.network = SimNetwork(self, random.Random(f"{seed}/network"), self.trace)
        self.unhandled: list[dict[str, Any]] = []
        self._now = 0.0
        self._spins = 0
        self._spins_max = spins_max
        # The base asks the real clock how coarse it is; ours is as fine as floats are.
        self._clock_resolution = 1e-9
        self._tasks_made = 0
        self._tasks: weakref.WeakValueDictionary[int, asyncio.Task[Any]]
        self._tasks = weakref.WeakValueDictionary()
        self._owners: dict[int, Process] = {}
        self.events = 0
        """How many callbacks were run."""
        self.after_event: Callable[[Process | None], None] | None = None
        """Called after each of them, with the process it belonged to."""
        self.set_exception_handler(lambda _loop, context: self.unhandled.append(context))

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def advance(self, timeout: float | None) -> None:
        """Called once a turn where a real loop would wait for `timeout` (None: forever)."""
        if timeout is None:
            raise DeadlockError(f"nothing will ever happen again; waiting are: {self._stuck()}")
        if timeout > 0:
            self._now += timeout
            self._spins = 0
            self.trace.note(f"{self._now:.9f}")
            return
        self._spins += 1
        if self._spins > self._spins_max:
            self._spins = 0  # what is left still has to be cancelled, which takes some turns
            raise SpinningError(f"{self._spins_max} turns at second {self._now}: {self._stuck()}")

    def pending_tasks(self) -> Sequence["asyncio.Task[Any]"]:
        """Tasks not yet done, in the order they were made (asyncio.all_tasks has no order)."""
        return [task for task in self._tasks.values() if not task.done()]

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], **options: Any
    ) -> "asyncio.Task[T]":
        """As asyncio's, and remembered in order."""
        task: asyncio.Task[T] = super().create_task(coro, **options)
        self._tasks_made += 1
        self._tasks[self._tasks_made] = task
        owner = current_process()
        if owner is not None:
            self._owners[self._tasks_made] = owner
        return task

    def kill(self, process: Process) -> None:
        """Nothing of a process runs any more: no callback, no `finally`, no timer."""
        tasks = list(self._tasks.items())
        process.die([task for number, task in tasks if self._owners.get(number) is process])
        living = {number for number, _ in tasks}
        self._owners = {n: p for n, p in self._owners.items() if n in living and p is not process}

    def forget(self) -> None:
        """The simulation is over: end every coroutine here and now, whatever it says to that."""
        self._ready.clear()
        self._scheduled.clear()
        self.set_exception_handler(lambda _loop, _context: None)
        while left := self.pending_tasks():
            for task in left:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())  # type: ignore[arg-type]
            self._tasks = weakref.WeakValueDictionary(
                {n: task for n, task in self._tasks.items() if task not in left}
            )
        self._ready.clear()
        self._scheduled.clear()

    def resume(self, process: Process) -> None:
        """A paused process goes on."""
        process.resume(self._ready)

    def _run_once(self) -> None:
        """As asyncio's, with the clock set instead of waited for, and each callback counted."""
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        if ready or self._stopping:
            self.advance(0)
        else:
            self.advance(max(0.0, scheduled[0].when() - self._now) if scheduled else None)
        due = self._now + self._clock_resolution
        while scheduled and scheduled[0].when() < due:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            self._run(ready.popleft())

    def _run(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        process = process_of(handle)
        if process is not None and process.stopped:
            process.hold(handle)
            return
        self.events += 1
        handle._run()
        if self.after_event is not None:
            self.after_event(process)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, **options: Any
    ) -> asyncio.Handle:
        """As `call_soon`: there are no other threads."""
        return self.call_soon(callback, *args, **options)

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,  # noqa: ARG002 - the signature is asyncio's
        func: Callable[..., Any],
        *args: Any,  # noqa: ARG002
    ) -> NoReturn:
        """Refused: a thread would bring real time in. Use the Work port."""
        raise RuntimeError(f"no threads in a simulation: {func!r}")

    async def getaddrinfo(  # type: ignore[override]
        self, host: str | None, port: int | str | None, **_options: Any
    ) -> Sequence[tuple[int, int, int, str, tuple[str, int]]]:
        """Every name is its own address."""
        address = (host or "127.0.0.1", int(port or 0))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        *,
        start_serving: bool = True,
        ssl: Any = None,
        **_options: Any,
    ) -> SimServer:
        """Listen on the simulated network."""
        if ssl is not None:
            raise NotImplementedError("the simulated network has no TLS")
        name = host if isinstance(host, str) or host is None else host[0]
        server = SimServer(self.network, protocol_factory, name or "0.0.0.0", port or 0)
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        **_options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect over the simulated network."""
        if ssl is not None:
            raise NotImplementedError("the simulated network has no TLS")
        return await self.network.connect(protocol_factory, host or "127.0.0.1", port or 0)

    def _process_events(self, event_list: Sequence[object]) -> None:
        """There are no events but callbacks and timers."""

    def _stuck(self) -> str:
        return "; ".join(_describe(self.pending_tasks())) or "no tasks"


class _OverError(BaseException):
    """Raised where a coroutine waits when the simulation is over."""


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    """End a coroutine that waits; where it waits again in a `finally`, end that too. (Python's own
    `close` leaves those that wait again to the garbage collector, which complains.)"""
    for _ in range(_CLOSINGS_MAX):
        try:
            coroutine.throw(_OverError())
        except BaseException:  # noqa: BLE001 - nobody is there to hear it
            return


def _describe(tasks: Sequence["asyncio.Task[Any]"]) -> Iterator[str]:
    for task in tasks:
        name = getattr(task.get_coro(), "__qualname__", "?")
        frames = task.get_stack(limit=1)
        place = f" at {frames[0].f_code.co_name}:{frames[0].f_lineno}" if frames else ""
        yield f"{task.get_name()} {name}{place}"


def run(
    main: Callable[[SimLoop], Coroutine[Any, Any, T]],
    seed: int | str,
    *,
    spins_max: int = SPINS_MAX,
) -> T:
    """Run `main(loop)` to its end in a world of its own, and return its result.

    Tasks that are left are cancelled, in the order they were made. Raises UnhandledError when
    something failed where nobody was looking.
    """
    loop = SimLoop(seed, spins_max=spins_max)
    try:
        asyncio.set_event_loop(loop)
        try:
            result = loop.run_until_complete(main(loop))
        finally:
            _cancel_rest(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    if loop.unhandled:
        _raise_unhandled(loop.unhandled)
    return result


def _cancel_rest(loop: SimLoop) -> None:
    left = loop.pending_tasks()
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


def _raise_unhandled(contexts: Sequence[dict[str, Any]]) -> NoReturn:
    first = contexts[0]
    more = f" (and {len(contexts) - 1} more)" if len(contexts) > 1 else ""
    error = first.get("exception")
    raise UnhandledError(f"{first.get('message')}: {error!r}{more}") from error
