"""Who is believed to be alive: sessions, and when each runs out."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.sim.network import NOWHERE
from barnabas.sim.zookeeper.connection import Connection


@dataclass(slots=True, eq=False)
class Session:
    """One client as the servers see it."""

    number: int
    machine: str
    timeout_s: float
    deadline: float
    connection: Connection | None = None
    timer: asyncio.TimerHandle | None = None


class Sessions:
    """All that live. Nothing runs out while there is no quorum: nobody could decide it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        slack_s: Callable[[], float],
        ran_out: Callable[[Session], None],
    ) -> None:
        self.living: dict[int, Session] = {}
        self._loop = loop
        self._slack_s = slack_s
        self._ran_out = ran_out
        self._made = 0
        self._halted = False

    def begin(self, machine: str, timeout_s: float) -> Session:
        """A new session."""
        self._made += 1
        # Like ZooKeeper's: large numbers that no one mistakes for broker ids or versions.
        number = 0x1_0000_0000 + self._made
        session = Session(number, machine, timeout_s, self._loop.time() + timeout_s)
        self.living[number] = session
        self._set_timer(session)
        return session

    def heard(self, session: Session) -> None:
        """Its client has said something."""
        session.deadline = self._loop.time() + session.timeout_s

    def end(self, session: Session) -> None:
        """It is over, whatever the reason."""
        self.living.pop(session.number, None)
        if session.timer is not None:
            session.timer.cancel()

    def halt(self) -> None:
        """The quorum is lost: time stands still for sessions."""
        self._halted = True

    def go_on(self) -> None:
        """There is a new leader: it gives everybody the full time again."""
        self._halted = False
        for session in self.living.values():
            self.heard(session)
            self._set_timer(session)

    def _set_timer(self, session: Session) -> None:
        if session.timer is not None:
            session.timer.cancel()
        when = session.deadline + self._slack_s()
        session.timer = self._loop.call_at(when, self._look, session, context=NOWHERE)

    def _look(self, session: Session) -> None:
        session.timer = None
        if self._halted:
            return
        if session.deadline <= self._loop.time():
            self._ran_out(session)
        else:
            self._set_timer(session)
