"""The limit server: what a broker of this design could do at most in Python, as a yardstick.

It does only what no broker can leave out: find the frames, check the batch's CRC-32C, write the
batch to a file, answer; and for a read: read the asked bytes and send them. No topics, no
offsets, no parsing (the records lie at a known place, see `frames`), so fetch offsets are byte
positions in its one file. Any other request empties the file.

    python -m barnabas.bench.limit --port 0 --dir DIR      prints the port it listens on
"""

import argparse
import asyncio
import os
import struct
from functools import lru_cache
from pathlib import Path
from typing import Final

import uvloop
from crc32c import crc32c

from barnabas.bench import frames

FILE_BYTES_MAX: Final = 4 << 30
"""Past this the file starts over, so that a forgotten run can not fill the disk."""
BUFFER_BYTES: Final = 4 << 20
FRAME_BYTES_MAX: Final = 2 << 20
FETCH_BYTES_MAX: Final = 2 << 20
ANSWER_BYTES: Final = FETCH_BYTES_MAX + 1024

_HEAD: Final = frames.REQUEST_HEAD
_CRC: Final = struct.Struct(">I")
_FETCH: Final = struct.Struct(">q12xi")
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_TAIL: Final = len(frames.PRODUCE_TAIL)
_ANSWER: Final = frames.produce_answer()
_ANSWER_BEFORE: Final = _ANSWER[:4]
_ANSWER_AFTER: Final = _ANSWER[8:]
_fetch_head: Final = lru_cache(frames.fetch_answer_head)


def records_at(data: memoryview, frame_at: int) -> int:
    """Where the records of a Produce frame begin: after the varint that holds their length."""
    at = frame_at + frames.RECORDS_LENGTH_AT
    while data[at] > 0x7F:
        at += 1
    return at + 1


class Store:
    """The one file that every connection writes to and reads from."""

    __slots__ = ("end", "fd")

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.end = 0

    def empty(self) -> None:
        """Give the disk and the page cache back."""
        os.ftruncate(self.fd, 0)
        self.end = 0


class Limit(asyncio.BufferedProtocol):
    """One connection, received into one buffer that is used again and again."""

    __slots__ = ("_answer", "_at", "_buffer", "_filled", "_store", "_transport", "_view")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._answer = memoryview(bytearray(ANSWER_BYTES))
        self._at = 0
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def get_buffer(self, _sizehint: int) -> memoryview:
        """The free rest of the buffer."""
        return self._view[self._filled :] if self._filled else self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Answer every whole frame; what is short leaves in one write."""
        at, filled, view = self._at, self._filled + nbytes, self._view
        answers: list[bytes] = []
        while filled - at >= 12:
            size, key, _, _ = _HEAD.unpack_from(view, at)
            end = at + 4 + size
            if end > filled:
                if not 0 <= size <= FRAME_BYTES_MAX:
                    self._transport.abort()
                    return
                break
            if key == frames.PRODUCE:
                if not self._append(at, end):
                    return
                answers.append(b"".join((_ANSWER_BEFORE, view[at + 8 : at + 12], _ANSWER_AFTER)))
            elif key == frames.FETCH:
                self._send(answers)
                answers = []
                self._transport.write(self._read(at))
            else:
                self._store.empty()
                answers.append(b"".join((b"\0\0\0\4", view[at + 8 : at + 12])))
            at = end
        self._send(answers)
        self._keep(at, filled)

    def _send(self, answers: list[bytes]) -> None:
        """One write for all: one write per answer took about twice the CPU time at depth 5."""
        if answers:
            self._transport.write(answers[0] if len(answers) == 1 else b"".join(answers))

    def _append(self, at: int, end: int) -> bool:
        view, store = self._view, self._store
        start = records_at(view, at)
        stop = end - _TAIL
        if crc32c(view[start + _CRC_FROM : stop]) != _CRC.unpack_from(view, start + _CRC_AT)[0]:
            self._transport.abort()
            return False
        store.end += os.pwrite(store.fd, view[start:stop], store.end)
        if store.end > FILE_BYTES_MAX:
            store.empty()
        return True

    def _read(self, at: int) -> memoryview:
        """The whole answer, with the records read from the file straight to their place in it."""
        position, size = _FETCH.unpack_from(self._view, at + frames.FETCH_OFFSET_AT)
        size = max(0, min(size, FETCH_BYTES_MAX, self._store.end - position))
        if self._transport.get_write_buffer_size():
            # The last answer still lies there: pipelined reads need memory of their own.
            self._answer = memoryview(bytearray(ANSWER_BYTES))
        answer, head = self._answer, _fetch_head(size)
        start = len(head)
        answer[:start] = head
        answer[4:8] = self._view[at + 8 : at + 12]
        os.preadv(self._store.fd, [answer[start : start + size]], position)
        answer[start + size : start + size + _TAIL] = frames.PRODUCE_TAIL
        return answer[: start + size + _TAIL]

    def _keep(self, at: int, filled: int) -> None:
        """Start at the front again when nothing is left over, or before a frame would not fit."""
        if at == filled:
            at = filled = 0
        elif BUFFER_BYTES - at < FRAME_BYTES_MAX:
            self._buffer[: filled - at] = self._view[at:filled]
            at, filled = 0, filled - at
        self._at, self._filled = at, filled


async def serve(host: str, port: int, directory: Path) -> None:
    """Listen until the process is told to end."""
    store = Store(directory / "limit.log")
    server = await asyncio.get_running_loop().create_server(lambda: Limit(store), host, port)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dir", type=Path, required=True)
    options = parser.parse_args()
    uvloop.run(serve(options.host, options.port, options.dir))


if __name__ == "__main__":
    main()
