"""A TCP proxy in front of a broker that counts which requests pass, by API key and version."""

import asyncio
import struct
import threading
from collections import Counter
from types import TracebackType
from typing import Final, Self

PRODUCE: Final = 0
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
TXN_OFFSET_COMMIT: Final = 28
_LENGTH: Final = struct.Struct(">i")
_API: Final = struct.Struct(">hh")
_CHUNK: Final = 1 << 16


class Recorder:
    """Listens on a port of its own; `seen` counts (API key, version).

    The broker must tell clients the recorder's address as its own.
    """

    def __init__(self, port: int, broker_port: int) -> None:
        self.seen: Counter[tuple[int, int]] = Counter()
        self._port = port
        self._broker_port = broker_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", self._port)
        asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self._port}"

    def versions(self, api_key: int) -> set[int]:
        """The versions of an API that were asked."""
        return {version for key, version in self.seen if key == api_key}

    async def _hang_up(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        broker, requests = await asyncio.open_connection("127.0.0.1", self._broker_port)
        back = asyncio.ensure_future(_pass_on(broker, answers))
        try:
            while True:
                head = await client.readexactly(_LENGTH.size)
                frame = await client.readexactly(_LENGTH.unpack(head)[0])
                self.seen[_API.unpack_from(frame)] += 1
                requests.write(head + frame)
                await requests.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            back.cancel()
            requests.close()
            answers.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        target.write(data)
        await target.drain()
    target.close()
