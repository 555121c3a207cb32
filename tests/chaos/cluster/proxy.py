"""Where there are no namespaces: everybody on loopback, and a proxy before each listener.

    python proxy.py

Orders come as lines of JSON on stdin, each answered with a line on stdout. Who connects is known by
the process that has the other end of the connection (Linux tells it in /proc); so what one host
sends to another can be held back, in one direction or in both. What is held back is not lost: it
arrives after the heal, as what TCP sends again would.
"""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

_CHUNK: Final = 16 * 1024
_TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_ELSEWHERE: Final = "clients"


class Proxy:
    """All listeners, and what is broken between whom."""

    def __init__(self) -> None:
        self._hosts: dict[int, str] = {}
        """By process."""
        self._cuts: set[tuple[str, str]] = set()
        self._rates: dict[str, float] = {}
        """Bytes a second that a host can send."""
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    async def obey(self, order: dict[str, Any]) -> None:
        """One order."""
        match order:
            case {"listen": int(port), "host": str(host), "to": int(to)}:
                await self._listen(port, host, to)
            case {"pid": int(pid), "host": str(host)}:
                self._hosts = {p: each for p, each in self._hosts.items() if each != host}
                self._hosts[pid] = host
            case {"cut": [str(sender), str(receiver)]}:
                self._cuts.add((sender, receiver))
            case {"slow": str(host), "rate": rate}:
                self._rates[host] = float(rate)
            case {"heal": True}:
                self._cuts.clear()
                self._rates.clear()
                async with self._changed:
                    self._changed.notify_all()
            case _:
                raise ValueError(f"what is {order}?")

    async def _listen(self, port: int, host: str, to: int) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            who = self._who(writer.get_extra_info("peername")[1], port)
            await self._connect(who, host, to, reader, writer)

        await asyncio.start_server(accept, "127.0.0.1", port)

    def _who(self, source: int, port: int) -> str:
        inode = inode_of(source, port)
        if inode is None:
            return _ELSEWHERE
        wanted = f"socket:[{inode}]"
        for pid, host in self._hosts.items():
            with contextlib.suppress(OSError):
                for each in os.scandir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        if os.readlink(each.path) == wanted:
                            return host
        return _ELSEWHERE

    async def _connect(
        self, sender: str, receiver: str, to: int,
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        try:
            await self._let_through(sender, receiver)
            back, forth = await asyncio.open_connection("127.0.0.1", to)
        except OSError:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, forth, sender, receiver))
                group.create_task(self._pump(back, writer, receiver, sender))
        finally:
            forth.close()
            writer.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, sender: str, receiver: str
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                await self._let_through(sender, receiver)
                rate = min(self._rates.get(sender, 0.0), 1e9)
                if rate:
                    await asyncio.sleep(len(data) / rate)
                sink.write(data)
                await sink.drain()
        await self._let_through(sender, receiver)
        with contextlib.suppress(OSError):
            sink.write_eof()

    async def _let_through(self, sender: str, receiver: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: (sender, receiver) not in self._cuts)


def inode_of(source: int, port: int) -> str | None:
    """The socket that connects from one local port to the other."""
    for table in _TABLES:
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            ends = [int(each.rpartition(":")[2], 16) for each in fields[1:3]]
            if ends == [source, port]:
                return fields[9]
    return None


async def serve() -> None:
    """Until stdin ends."""
    proxy = Proxy()
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        await proxy.obey(json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
