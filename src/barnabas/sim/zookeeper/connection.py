"""Both ends of one connection, as far as the ensemble and the client need to know."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from barnabas.sim.zookeeper.messages import Answer, Request, Welcome
from barnabas.sim.zookeeper.wire import Wire


class Peer(Protocol):
    """The client's side of a connection."""

    @property
    def machine(self) -> str:
        """Where it runs."""
        ...

    @property
    def watched(self) -> Mapping[str, object]:
        """The paths it watches."""
        ...

    def welcomed(self, connection: "Connection", welcome: Welcome) -> None:
        """The servers have answered the connection."""
        ...

    def answered(self, connection: "Connection", answer: Answer) -> None:
        """They have answered a request."""
        ...

    def notified(self, connection: "Connection", path: str) -> None:
        """What stands at a watched path has changed."""
        ...

    def broken(self, connection: "Connection") -> None:
        """The connection is gone."""
        ...


class Connection:
    """Requests one way, answers and news the other."""

    def __init__(
        self,
        peer: Peer,
        loop: asyncio.AbstractEventLoop,
        chance: random.Random,
        held_to_server: Callable[[], bool],
        held_to_client: Callable[[], bool],
    ) -> None:
        self.peer = peer
        self.session = 0
        self.established = False
        self.to_server = Wire(loop, chance, held_to_server)
        self.to_client = Wire(loop, chance, held_to_client)
        self.served = True
        """Whether the servers still listen to it."""
        self.work: deque[Request] = deque()
        """Requests that have arrived and are not answered yet."""
        self.busy = False
        self._news: dict[str, None] = {}

    def break_off(self) -> None:
        """The servers' end: nothing more is heard; the client learns it, if it can be reached."""
        if self.served:
            self.served = False
            self.work.clear()
            self.to_server.end()
            self.to_client.drop()
            self.to_client.send(lambda: self.peer.broken(self))

    def abandon(self) -> None:
        """The client's end: it listens no longer. What it sent may still arrive."""
        self.to_client.end()
        self.to_server.send(self._hung_up)

    def notify(self, path: str) -> None:
        """Send news of a path, unless some are on the way already."""
        if path not in self._news:
            self._news[path] = None
            self.to_client.send(lambda: self._tell(path))

    def _tell(self, path: str) -> None:
        del self._news[path]
        self.peer.notified(self, path)

    def _hung_up(self) -> None:
        self.served = False
        self.work.clear()
        self.to_server.end()
