"""A listener on a real loop with real clients; every test that takes `rig` runs on both loops."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from barnabas.net.limits import NetLimits
from barnabas.net.listener import Listener
from barnabas.ports.exchange import Dispatch

T = TypeVar("T")

PATIENCE_S = 30.0
"""Only a hung test waits for so long."""


class Client:
    """A peer that sends frames and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *payloads: bytes) -> None:
        self.raw(b"".join(struct.pack(">i", len(each)) + each for each in payloads))

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def ask(self, payload: bytes) -> bytes:
        self.send(payload)
        return await self.answer()

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, however it ends."""
        received = b""
        with contextlib.suppress(ConnectionError):
            while piece := await self.reader.read(65536):
                received += piece
        return received

    def close(self) -> None:
        self.writer.close()


class Served:
    """A started listener, and clients for it."""

    def __init__(self, listener: Listener, port: int) -> None:
        self.listener = listener
        self.port = port
        self._clients: list[Client] = []

    async def connect(self, host: str = "127.0.0.1") -> Client:
        client = Client(*await asyncio.open_connection(host, self.port))
        self._clients.append(client)
        return client

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()


class Rig:
    """Runs a test on one of the loops."""

    def __init__(self, loop: str) -> None:
        self.loop = loop

    def run(self, test: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await test

        if self.loop == "uvloop":
            return uvloop.run(bounded())
        return asyncio.run(bounded())

    @contextlib.asynccontextmanager
    async def serving(
        self, dispatch: Dispatch, limits: NetLimits | None = None, host: str = "127.0.0.1"
    ) -> AsyncIterator[Served]:
        listener = Listener(dispatch, limits)
        _, port = await listener.start(host, 0)
        served = Served(listener, port)
        try:
            yield served
        finally:
            await listener.stop(0.0)
            served.close_clients()


@pytest.fixture(params=["asyncio", "uvloop"])
def rig(request: pytest.FixtureRequest) -> Rig:
    return Rig(request.param)
