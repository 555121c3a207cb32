"""A server that does nothing but answer: what a heartbeat costs before anybody thinks about it.

It takes every whole frame for a Heartbeat v4 and says that all is well.
"""

import argparse
import asyncio
import struct
from pathlib import Path
from typing import Final

import uvloop

_HEAD: Final = struct.Struct(">ihhi")
"""Size, API key, version and correlation id."""
_ANSWER: Final = struct.Struct(">iibihb")
"""Size, correlation id, no tags, no throttling, no error, no tags."""


class Echo(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Answer every whole frame."""
        data = self._data + data
        while len(data) >= _HEAD.size:
            size, _, _, correlation_id = _HEAD.unpack_from(data)
            if len(data) < size + 4:
                break
            self._transport.write(_ANSWER.pack(_ANSWER.size - 4, correlation_id, 0, 0, 0, 0))
            data = data[size + 4 :]
        self._data = data


async def serve() -> None:
    """Listen on a free port, say which, and go on until the process is told to end."""
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """It keeps no files, whatever directory it is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path)
    parser.parse_args()
    uvloop.run(serve())


if __name__ == "__main__":
    main()
