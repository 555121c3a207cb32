"""A connection to a broker on an event loop: any number of requests on their way at once."""

import asyncio
from collections import deque
from collections.abc import Sequence
from ssl import SSLContext
from types import TracebackType
from typing import Any, Final, Self

from barnabas.link.exchange import Answer, Exchange, Piece
from barnabas.model import limits
from barnabas.model.errors import DecodeError
from barnabas.wire.apis import FETCH, PRODUCE
from barnabas.wire.fetch import FetchRequest
from barnabas.wire.fetch_client import FetchResponse, encode_fetch_request, parse_fetch_response
from barnabas.wire.messages import decode_response, encode_request
from barnabas.wire.produce import ProduceRequest
from barnabas.wire.produce_client import (
    ProduceResponse,
    encode_produce_request,
    parse_produce_response,
)

_RECEIVE_BYTES: Final = 64 * 1024


class Link(asyncio.BufferedProtocol):
    """One connection; made by `connect`. A request that times out does not disturb the others.

    Raises OSError (TimeoutError, ConnectionError) for what the network does, and DecodeError
    for answers that make no sense, after which the connection is closed.
    """

    def __init__(
        self,
        client_id: str | None = "barnabas",
        timeout_s: float | None = 30.0,
        frame_bytes_max: int = limits.FRAME_BYTES_MAX,
    ) -> None:
        self._exchange = Exchange(client_id, frame_bytes_max)
        self._timeout_s = timeout_s
        self._received = bytearray(_RECEIVE_BYTES)
        self._room: memoryview | None = None
        self._waiting: deque[asyncio.Future[Answer]] = deque()
        self._transport: asyncio.Transport | None = None
        self._problem: Exception | None = None
        self._closed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up. Requests that still wait fail with ConnectionError."""
        if self._transport is not None:
            self._transport.abort()
            await self._closed.wait()

    @property
    def is_open(self) -> bool:
        """Whether requests can still be made."""
        return self._transport is not None and self._problem is None

    async def call(self, api_key: int, version: int, request: Any) -> Any:
        """Ask in one version; request and answer are in their newest form."""
        answer = await self.ask(api_key, version, [encode_request(api_key, version, request)])
        return decode_response(api_key, version, answer.frame[answer.body_at :])

    async def produce(self, version: int, request: ProduceRequest) -> ProduceResponse | None:
        """Send records; None with acks=0, which has no answer."""
        body = encode_produce_request(version, request)
        if request.acks == 0:
            await self._send(PRODUCE, version, body, answered=False)
            return None
        answer = await self.ask(PRODUCE, version, body)
        return parse_produce_response(version, answer.frame, answer.body_at)

    async def fetch(self, version: int, request: FetchRequest) -> FetchResponse:
        """Ask for records; those of the answer are views of its frame."""
        answer = await self.ask(FETCH, version, [encode_fetch_request(version, request)])
        return parse_fetch_response(version, answer.frame, answer.body_at)

    async def ask(self, api_key: int, version: int, body: Sequence[Piece]) -> Answer:
        """Send a request, its body in pieces, and wait for its answer."""
        async with asyncio.timeout(self._timeout_s):
            waiting = await self._send(api_key, version, body, answered=True)
            return await waiting

    async def _send(
        self, api_key: int, version: int, body: Sequence[Piece], *, answered: bool
    ) -> asyncio.Future[Answer]:
        await self._writable.wait()
        if self._problem is not None:
            raise self._problem
        if self._transport is None:
            raise ConnectionError("the link is not connected")
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        pieces = self._exchange.ask(api_key, version, body, answered=answered)
        if answered:
            self._waiting.append(waiting)
        self._transport.writelines(pieces)
        return waiting

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is up."""
        self._transport = transport  # type: ignore[assignment]  # a stream's protocol gets a Transport

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:  # noqa: ARG002
        """Where the next bytes go: to the rest of a large answer, if one has begun."""
        self._room = self._exchange.room
        return self._received if self._room is None else self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Hand each complete answer to whoever waits for it, if they still do."""
        room, self._room = self._room, None
        try:
            if room is None:
                answers = self._exchange.receive(bytes(memoryview(self._received)[:nbytes]))
            else:
                answers = self._exchange.filled(nbytes)
        except DecodeError as problem:
            self._fail(problem)
            return
        for answer in answers:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, and with it every answer that was still to come."""
        self._fail(exc or ConnectionResetError("the connection to the broker is closed"))
        self._closed.set()

    def pause_writing(self) -> None:
        """The peer does not read fast enough: hold further requests back."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._writable.set()

    def _fail(self, problem: Exception) -> None:
        if self._problem is None:
            self._problem = problem
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(self._problem)
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()


async def connect(
    host: str,
    port: int,
    *,
    client_id: str | None = "barnabas",
    timeout_s: float | None = 30.0,
    tls: SSLContext | None = None,
    frame_bytes_max: int = limits.FRAME_BYTES_MAX,
) -> Link:
    """Open a connection; `timeout_s` bounds this and then each request."""
    link = Link(client_id, timeout_s, frame_bytes_max)
    async with asyncio.timeout(timeout_s):
        await asyncio.get_running_loop().create_connection(lambda: link, host, port, ssl=tls)
    return link
