"""One life of a program on a simulated machine: it runs, stands still, or is dead.

Whatever is scheduled from inside a process belongs to it, by the context that asyncio carries
along. The loop asks before each callback: a paused process gets it when it goes on, a dead one
never.
"""

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Iterator

from barnabas.sim.network import on_machine

_process: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """Made once for each start of a program; `with process.inside():` is its main function."""

    __slots__ = ("_held", "alive", "machine", "number", "paused", "stopped")

    def __init__(self, machine: str, number: int = 0) -> None:
        self.machine = machine
        self.number = number
        self.alive = True
        self.paused = False
        self.stopped = False
        """Whether its callbacks are to be kept from running: paused or dead."""
        self._held: list[object] = []

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """What is started inside belongs to the process, and runs on its machine."""
        token = _process.set(self)
        try:
            with on_machine(self.machine):
                yield
        finally:
            _process.reset(token)

    def hold(self, handle: object) -> None:
        """It is to be called, and can not be now. A dead process keeps it too, for ever: what a
        coroutine has in its `finally` must not happen after its death."""
        self._held.append(handle)

    def pause(self) -> None:
        """It stands still from now on."""
        self.paused = self.stopped = True

    def resume(self, ready: "deque[asyncio.Handle]") -> None:
        """It goes on with all that has become due meanwhile."""
        if self.alive and self.paused:
            self.paused = self.stopped = False
            held, self._held = self._held, []
            ready.extend(held)  # type: ignore[arg-type]  # nothing but handles, while it lives

    def die(self, *kept: object) -> None:
        """Nothing of it runs any more; `kept` stays as it is."""
        self.alive = False
        self.stopped = True
        self._held.extend(kept)

    @property
    def held(self) -> list[object]:
        """What will never run."""
        return self._held


def current_process() -> Process | None:
    """Whose code is running; None: the simulation's own, or that of a client."""
    return _process.get()


def process_of(handle: asyncio.Handle) -> Process | None:
    """To whom a callback belongs."""
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]
    return context.get(_process)
