"""A TCP proxy in front of a server that can stall, swallow answers, and break connections."""

import asyncio
from contextlib import suppress
from typing import Self


class Proxy:
    """Passes bytes both ways, as long as it is let."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._requests_flow = asyncio.Event()
        self._answers_flow = asyncio.Event()
        self.flow()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.break_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connect(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    def flow(self) -> None:
        """Everything passes."""
        self._requests_flow.set()
        self._answers_flow.set()

    def stall(self) -> None:
        """Nothing passes, and nobody is told; new connections wait too."""
        self._requests_flow.clear()
        self._answers_flow.clear()

    def swallow_answers(self) -> None:
        """Requests pass, answers do not."""
        self._answers_flow.clear()

    def break_all(self) -> None:
        """Every connection is reset."""
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers.append(back)
        for source, target, flows in (
            (reader, back, self._requests_flow),
            (there, writer, self._answers_flow),
        ):
            self._tasks.append(asyncio.create_task(self._pass(source, target, flows)))

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await flows.wait()
                target.write(data)
                await target.drain()
        target.close()
