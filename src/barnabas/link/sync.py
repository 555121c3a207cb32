"""A connection to a broker over a blocking socket, for one thread, one request at a time."""

import socket
from collections import deque
from collections.abc import Sequence
from ssl import SSLContext, SSLSocket
from types import TracebackType
from typing import Any, Final, Self

from barnabas.link.exchange import Answer, Exchange, Piece
from barnabas.model import limits
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
"""Enough for most answers, and still cheap to allocate."""

_PIECES_AT_ONCE: Final = 512
"""Fewer than any system's IOV_MAX."""


class Link:
    """One connection. Any error leaves it unusable: close it and open another.

    Raises OSError (TimeoutError, ConnectionError) for what the network does, and DecodeError
    for answers that make no sense.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = "barnabas",
        timeout_s: float = 30.0,
        connect_timeout_s: float | None = None,
        tls: SSLContext | None = None,
        frame_bytes_max: int = limits.FRAME_BYTES_MAX,
    ) -> None:
        """`timeout_s` bounds each wait; that for the connection too, unless it has its own."""
        self._exchange = Exchange(client_id, frame_bytes_max)
        self._answers: deque[Answer] = deque()
        plain = socket.create_connection((host, port), timeout=connect_timeout_s or timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket: socket.socket = (
                plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
            )
            self._socket.settimeout(timeout_s)
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def call(self, api_key: int, version: int, request: Any) -> Any:
        """Ask in one version; request and answer are in their newest form."""
        self.send_frame(api_key, version, [encode_request(api_key, version, request)])
        answer = self.receive_frame()
        return decode_response(api_key, version, answer.frame[answer.body_at :])

    def produce(self, version: int, request: ProduceRequest) -> ProduceResponse | None:
        """Send records; None with acks=0, which has no answer."""
        answered = request.acks != 0
        body = encode_produce_request(version, request)
        self.send_frame(PRODUCE, version, body, answered=answered)
        if not answered:
            return None
        answer = self.receive_frame()
        return parse_produce_response(version, answer.frame, answer.body_at)

    def fetch(self, version: int, request: FetchRequest) -> FetchResponse:
        """Ask for records; those of the answer are views of its frame."""
        self.send_frame(FETCH, version, [encode_fetch_request(version, request)])
        answer = self.receive_frame()
        return parse_fetch_response(version, answer.frame, answer.body_at)

    def send_frame(
        self, api_key: int, version: int, body: Sequence[Piece], *, answered: bool = True
    ) -> None:
        """Send one request, its body in pieces. Several may be sent before one is answered."""
        pieces = self._exchange.ask(api_key, version, body, answered=answered)
        if len(pieces) > _PIECES_AT_ONCE or isinstance(self._socket, SSLSocket):
            self._socket.sendall(b"".join(pieces))
            return
        total = sum(len(piece) for piece in pieces)
        sent = self._socket.sendmsg(pieces)
        if sent < total:
            self._socket.sendall(memoryview(b"".join(pieces))[sent:])

    def receive_frame(self) -> Answer:
        """The answer to the oldest request that has not been answered."""
        while not self._answers:
            self._answers.extend(self._receive_some())
        return self._answers.popleft()

    def _receive_some(self) -> list[Answer]:
        room = self._exchange.room
        if room is not None:
            count = self._socket.recv_into(room)
            if count:
                return self._exchange.filled(count)
        elif data := self._socket.recv(_RECEIVE_BYTES):
            return self._exchange.receive(data)
        raise ConnectionResetError("the broker has hung up")
