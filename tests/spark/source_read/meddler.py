"""A hop between reader and broker that changes Fetch answers: other brokers' ways, and bad luck."""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barnabas.testing import Broker
from barnabas.wire.apis import FETCH
from barnabas.wire.fetch import FetchPartitionResult, FetchTopicResult, encode_fetch_response
from barnabas.wire.fetch_client import parse_fetch_response
from barnabas.wire.headers import parse_response_header

Meddle = Callable[[str, FetchPartitionResult], FetchPartitionResult | None]
"""Topic and what a partition answers in; what is to be told out, or None to hang up instead."""

_LENGTH = struct.Struct(">i")
_START = struct.Struct(">hhi")


def honest(_topic: str, result: FetchPartitionResult) -> FetchPartitionResult:
    """No meddling."""
    return result


class Meddler:
    """Clients are told to come here; `meddle` may be set at any time."""

    def __init__(self) -> None:
        self.meddle: Meddle = honest
        self.fetch_version = 0
        self.target: tuple[str, int] = ("", 0)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listening]
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self.target)
                self._sockets += (client, server)
                asked: deque[tuple[int, int]] = deque()
                for work in (self._requests, self._answers):
                    threading.Thread(
                        target=_until_closed, args=(work, client, server, asked), daemon=True
                    ).start()

    def _requests(
        self, client: socket.socket, server: socket.socket, asked: deque[tuple[int, int]]
    ) -> None:
        for frame in _frames(client):
            api_key, version, _ = _START.unpack_from(frame)
            asked.append((api_key, version))
            server.sendall(_LENGTH.pack(len(frame)) + frame)

    def _answers(
        self, client: socket.socket, server: socket.socket, asked: deque[tuple[int, int]]
    ) -> None:
        for frame in _frames(server):
            api_key, version = asked.popleft()
            told: bytes | None = frame
            # From 13 on answers would not name their topics.
            if api_key == FETCH and version <= 12:
                self.fetch_version = version
                told = self._changed(version, frame)
            if told is None:
                client.sendall(_LENGTH.pack(len(frame)) + frame[: len(frame) // 2])
                return
            client.sendall(_LENGTH.pack(len(told)) + told)

    def _changed(self, version: int, frame: bytes) -> bytes | None:
        view = memoryview(frame)
        _, body_at = parse_response_header(FETCH, version, view)
        response = parse_fetch_response(version, view, body_at)
        topics = []
        for name, topic_id, partitions in response.topics:
            told = [self.meddle(name or "", result) for result in partitions]
            kept = [result for result in told if result is not None]
            if len(kept) < len(told):
                return None
            topics.append(FetchTopicResult(name, topic_id, kept))
        pieces = encode_fetch_response(version, response.error, response.session_id, topics)
        return frame[:body_at] + b"".join(pieces)


def _until_closed(
    work: Callable[[socket.socket, socket.socket, deque[tuple[int, int]]], None],
    client: socket.socket,
    server: socket.socket,
    asked: deque[tuple[int, int]],
) -> None:
    with contextlib.suppress(OSError):
        work(client, server, asked)
    for each in (client, server):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _frames(connection: socket.socket) -> Iterator[bytes]:
    with connection.makefile("rb") as stream:
        while head := stream.read(_LENGTH.size):
            (length,) = _LENGTH.unpack(head)
            yield stream.read(length)


@contextmanager
def meddled_broker() -> Iterator[tuple[str, Meddler]]:
    """A broker in memory whose clients all come through a meddler."""
    meddler = Meddler()
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{meddler.port}"}
    try:
        with Broker(config=advertised) as broker:
            meddler.target = (broker.host, broker.port)
            yield f"127.0.0.1:{meddler.port}", meddler
    finally:
        meddler.close()
