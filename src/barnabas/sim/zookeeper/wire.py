"""One connection between a client and a member: two ways, each in order, each late or held up."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.sim.network import NOWHERE

_STEP_S: Final = 1e-6
"""What is sent later arrives later, if only by this."""

_SAME_MOMENT_S: Final = 1e-8

_REPEAT_S: Final = 0.2
"""TCP's first retransmission; each further one takes twice as long."""

_REPEAT_S_MAX: Final = 2.0


def latency(chance: random.Random) -> float:
    """Seconds: mostly a fraction of a millisecond, now and then a retransmission."""
    if chance.random() < 0.01:
        return chance.uniform(0.01, 0.3)
    return chance.uniform(0.0001, 0.002)


class Wire:
    """One way. While `held()` is true what was sent waits, as TCP's bytes do in a partition."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        chance: random.Random,
        held: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._held = held
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()
        self._latest = 0.0
        self._repeat_s = _REPEAT_S
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def send(self, deliver: Callable[[], None]) -> None:
        """Call `deliver` when it has arrived, after all that was sent before."""
        if self._ended:
            return
        arrives = max(self._latest + _STEP_S, self._loop.time() + latency(self._chance))
        self._latest = arrives
        self._queue.append((arrives, deliver))
        self._set_timer(arrives)

    def drop(self) -> None:
        """Whatever is on the way is lost."""
        self._queue.clear()

    def end(self) -> None:
        """Nothing arrives any more."""
        self._ended = True
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def try_again(self) -> None:
        """Perhaps it is held up no longer."""
        if self._queue and not self._ended:
            self._repeat_s = _REPEAT_S
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._set_timer(max(self._queue[0][0], self._loop.time()))

    def _set_timer(self, when: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_at(when, self._arrive, context=NOWHERE)

    def _arrive(self) -> None:
        self._timer = None
        if self._held():
            again_s = self._chance.uniform(0.5, 1.5) * self._repeat_s
            self._set_timer(self._loop.time() + again_s)
            self._repeat_s = min(2 * self._repeat_s, _REPEAT_S_MAX)
            return
        self._repeat_s = _REPEAT_S
        while self._queue and self._queue[0][0] <= self._loop.time() + _SAME_MOMENT_S:
            _, deliver = self._queue.popleft()
            deliver()
        if self._queue:
            self._set_timer(self._queue[0][0])
