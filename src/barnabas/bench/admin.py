"""Topics for the benchmarks: create, wait for, delete, over one raw connection each."""

import secrets
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final

from barnabas.bench import frames
from barnabas.bench.load import RefusedError, connect
from barnabas.model.errors import BarnabasError

READY_S_MAX: Final = 30.0
ANSWER_BYTES_MAX: Final = 16 << 20
_NONE: Final = 0
_TOPIC_ALREADY_EXISTS: Final = 36


def new_topic_name() -> str:
    """A name no other run uses, as long as the frames need it."""
    return "bench-" + secrets.token_hex((frames.TOPIC_BYTES - 6) // 2)


def converse(sock: socket.socket, frame: bytes) -> bytes:
    """Send one request and wait for its answer; the answer's body."""
    sock.sendall(frame)
    return receive(sock)[8:]


def receive(sock: socket.socket) -> bytes:
    """One whole answer, with its size and correlation id."""
    head = _receive(sock, 8)
    size = struct.unpack_from(">i", head)[0]
    if not 4 <= size <= ANSWER_BYTES_MAX:
        raise RefusedError(f"an answer of {size} bytes")
    return head + _receive(sock, size - 4)


def _receive(sock: socket.socket, size: int) -> bytes:
    data = sock.recv(size, socket.MSG_WAITALL) if size else b""
    if len(data) < size:
        raise RefusedError("the server closed the connection")
    return data


def exchange(host: str, port: int, frame: bytes) -> bytes:
    """Send one request on a connection of its own; the body of its answer."""
    with connect(host, port) as sock:
        return converse(sock, frame)


class _Reader:
    """Walks an answer of a non-flexible version."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> int:
        value: int = struct.unpack_from(form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return value

    def text(self) -> str:
        size = max(0, self.take(">h"))
        self._at += size
        return self._data[self._at - size : self._at].decode()


def topic_errors(answer: bytes, *, throttled: bool, messages: bool) -> dict[str, int]:
    """Error code per topic in the answer to CreateTopics v4 or DeleteTopics v3."""
    reader = _Reader(answer)
    if throttled:
        reader.take(">i")
    errors = {}
    for _ in range(reader.take(">i")):
        name = reader.text()
        errors[name] = reader.take(">h")
        if messages:
            reader.text()
    return errors


def metadata_errors(answer: bytes) -> dict[str, int]:
    """Error code per topic in the answer to Metadata v4; the first partition's when it has one."""
    reader = _Reader(answer)
    reader.take(">i")
    for _ in range(reader.take(">i")):
        reader.take(">i")
        reader.text()
        reader.take(">i")
        reader.text()
    reader.text()
    reader.take(">i")
    errors = {}
    for _ in range(reader.take(">i")):
        error = reader.take(">h")
        name = reader.text()
        reader.take(">b")
        for _ in range(reader.take(">i")):
            partition_error = reader.take(">h")
            error = error or partition_error
            reader.take(">i")
            reader.take(">i")
            for _ in range(2):
                for _ in range(reader.take(">i")):
                    reader.take(">i")
        errors[name] = error
    return errors


def create_topic(
    host: str,
    port: int,
    topic: str,
    configs: dict[str, str] | None = None,
    replicas: Sequence[int] = (),
) -> None:
    """Create a topic of one partition and wait until it has a leader."""
    answer = exchange(host, port, frames.create_topic(topic, configs or {}, replicas=replicas))
    error = topic_errors(answer, throttled=True, messages=True).get(topic, _NONE)
    if error not in (_NONE, _TOPIC_ALREADY_EXISTS):
        raise BarnabasError(f"The broker refused to create topic {topic}: error code {error}.")
    wait_for_topic(host, port, topic, create=False)


def wait_for_topic(host: str, port: int, topic: str, *, create: bool) -> None:
    """Ask for the topic (creating it by asking, if wanted) until the broker says it is ready."""
    with connect(host, port) as sock:
        wait_for_topic_on(sock, topic, create=create)


def wait_for_topic_on(sock: socket.socket, topic: str, *, create: bool) -> None:
    """`wait_for_topic` on a connection that is open already."""
    deadline = time.monotonic() + READY_S_MAX
    error: int | None = None
    while time.monotonic() < deadline:
        error = metadata_errors(converse(sock, frames.metadata(topic, create=create))).get(topic)
        if error == _NONE:
            return
        time.sleep(0.001)
    raise BarnabasError(f"Topic {topic} was not ready in {READY_S_MAX:.0f} s: error code {error}.")


def delete_topic(host: str, port: int, topic: str) -> None:
    """Delete a topic, so that the disk is free for the next round."""
    answer = exchange(host, port, frames.delete_topic(topic))
    error = topic_errors(answer, throttled=True, messages=False).get(topic, _NONE)
    if error != _NONE:
        raise BarnabasError(f"The broker refused to delete topic {topic}: error code {error}.")


def high_watermark(host: str, port: int, topic: str, offset: int) -> int:
    """Up to where partition 0 is committed, asked with a fetch from `offset`."""
    frame = bytearray(frames.fetch(topic, bytes_max=0, wait_ms=0))
    frames.OFFSET.pack_into(frame, frames.FETCH_OFFSET_AT, offset)
    with connect(host, port) as sock:
        sock.sendall(frame)
        answer = receive(sock)
    _, _, error, partition_error, found = frames.FETCH_ANSWER.unpack_from(answer)
    if error or partition_error:
        raise RefusedError(f"asking for the high watermark: error code {error or partition_error}")
    mark: int = found
    return mark


def wait_until_ready(host: str, port: int, seconds_max: float = READY_S_MAX) -> None:
    """Wait until a Metadata request is answered."""
    deadline = time.monotonic() + seconds_max
    problem: Exception | None = None
    while time.monotonic() < deadline:
        try:
            exchange(host, port, frames.metadata(None, create=False))
            return
        except (OSError, RefusedError) as not_yet:
            problem = not_yet
            time.sleep(0.005)
    raise BarnabasError(f"No broker answered at {host}:{port} in {seconds_max:.0f} s ({problem}).")
