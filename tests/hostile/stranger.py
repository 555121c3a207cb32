"""A peer with no manners: sends whatever bytes it is told to, and says what came back."""

import contextlib
import socket
import struct
from typing import Final, Self

from barnabas.wire.headers import request_header

WAIT_S: Final = 30.0
"""Only an answer that never comes takes so long; nothing passes or fails by being quick."""
_API_VERSIONS: Final = 18
GOODBYE_ID: Final = 0x600DB1E


class HungUpError(Exception):
    """The broker closed the connection instead of answering."""


def framed(frame: bytes) -> bytes:
    """A frame behind its true length."""
    return struct.pack(">i", len(frame)) + frame


GOODBYE: Final = framed(request_header(_API_VERSIONS, 0, GOODBYE_ID))
"""A harmless request sent behind a hostile one: its answer means that the latter is done with."""


class Stranger:
    """One connection."""

    def __init__(self, port: int, wait_s: float = WAIT_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=wait_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are; a peer that has hung up already is noticed when reading."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def finish(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(OSError):  # It may have hung up first.
            self.socket.shutdown(socket.SHUT_WR)

    def frame(self) -> bytes:
        """The next answer, without its length. HungUpError at the end."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(min(count - len(parts), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise HungUpError(f"{len(parts)} of {count} bytes came")
            parts += part
        return bytes(parts)

    def outcome(self, data: bytes) -> list[bytes] | None:
        """Send bytes, then a harmless request: the answers to the former; None if it hung up."""
        self.send(data + GOODBYE)
        answers: list[bytes] = []
        try:
            while True:
                answer = self.frame()
                if answer[:4] == GOODBYE_ID.to_bytes(4, "big"):
                    return answers
                answers.append(answer)
        except HungUpError:
            return None


def outcome(port: int, data: bytes) -> list[bytes] | None:
    """What bytes get on a connection of their own: answers, or None when it is closed."""
    with Stranger(port) as stranger:
        return stranger.outcome(data)
