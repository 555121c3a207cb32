"""The small door: answers HTTP questions about how the broker is, one for each connection."""

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast

from barnabas.model import limits
from barnabas.net.http import Answered, Asked, BadRequestError, encode_answer, parse_head
from barnabas.net.listener import bind_problem
from barnabas.ports.exchange import Address

_METHODS: Final = ("GET", "HEAD")
_LAST_TURNS: Final = 100
"""Of the loop, in which aborted connections learn of their end; the next one is enough."""

Answer = Callable[[str], Answered | None]
"""What to say of a path; None: there is nothing there."""


class HealthListener:
    """Listens, and lets few in at once."""

    def __init__(self, answer: Answer, *, wait_s: float = limits.HEALTH_WAIT_S_MAX) -> None:
        self.answer = answer
        self.wait_s = wait_s
        self._visits: dict[_Visit, None] = {}
        self._server: asyncio.AbstractServer | None = None

    async def start(self, host: str, port: int) -> Address:
        """Listen there; port 0 takes a free one. BarnabasError says what is in the way."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Visit(self), host, port)
        except OSError as error:
            raise bind_problem(host, port, error) from error
        return host, self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Nobody is let in any more, and nobody is left."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for visit in tuple(self._visits):
            visit.abort()
        for _ in range(_LAST_TURNS):
            if not self._visits:
                return
            await asyncio.sleep(0)

    def enter(self, visit: "_Visit") -> bool:
        """Whether there is room for one more."""
        if self._server is None or len(self._visits) >= limits.HEALTH_CONNECTIONS_MAX:
            return False
        self._visits[visit] = None
        return True

    def leave(self, visit: "_Visit") -> None:
        """It is gone."""
        self._visits.pop(visit, None)


class _Visit(asyncio.Protocol):
    """One connection: a head comes, an answer goes, and that is all."""

    def __init__(self, listener: HealthListener) -> None:
        self._listener = listener
        self._received = bytearray()
        self._answered = False
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is here, and has to go in time."""
        if not self._listener.enter(self):
            transport.close()
            return
        self._transport = cast("asyncio.Transport", transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._listener.wait_s, self.abort)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a head, or of what nobody asked for."""
        if self._answered or self._transport is None:
            return
        self._received += data
        try:
            asked = parse_head(self._received)
        except BadRequestError as error:
            self._say(_refusal(error.status))
            return
        if asked is not None:
            self._say(_answer_to(asked, self._listener.answer), with_body=asked.method != "HEAD")

    def _say(self, answered: Answered, *, with_body: bool = True) -> None:
        self._answered = True
        self._received.clear()
        if self._transport is not None:
            self._transport.write(encode_answer(answered, with_body=with_body))
            self._transport.close()

    def abort(self) -> None:
        """The time is over: for it, or for all."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """It has gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._listener.leave(self)


def _answer_to(asked: Asked, answer: Answer) -> Answered:
    if asked.method not in _METHODS:
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
    return answer(asked.path) or _refusal(HTTPStatus.NOT_FOUND)


def _refusal(status: HTTPStatus) -> Answered:
    return Answered(status, json.dumps({"error": status.phrase}).encode())
