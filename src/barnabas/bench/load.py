"""The load generator: prebuilt requests over blocking sockets, from a process of its own.

A worker reads one JSON `Load` per line on stdin, connects, prints a line, waits for an empty
line (so that several workers start together) and prints one JSON `Outcome`. It counts only
requests whose answer arrived with the right correlation id and no error.

    python -m barnabas.bench.load
"""

import json
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from barnabas.bench import frames
from barnabas.bench.payload import Batch, build_batch

WAIT_S_MAX: Final = 30
"""A server that keeps silent for so long has failed the run."""
SLOTS_BYTES: Final = 64 * 1024
"""Small requests lie side by side, so that several leave in one system call."""
ANSWER_BYTES: Final = 64 * 1024
_BATCH_WALK: Final = struct.Struct(">qi11xi30xi")
"""base offset, length, last offset delta, record count"""


@dataclass(frozen=True)
class Load:
    """What one worker shall do; bounded in requests and in seconds."""

    host: str
    port: int
    topic: str
    kind: str
    """`produce` or `consume`"""
    batch_bytes: int
    requests_max: int
    seconds_max: float
    depth: int = 1
    connections: int = 1
    acks: int = -1
    fetch_bytes: int = 0
    """Records asked for in one Fetch"""
    end_offset: int = 0
    """Where consuming starts over; a byte position when `offsets_are_bytes`"""
    start_offset: int = 0
    """Where consuming starts"""
    offsets_are_bytes: bool = False
    """Speak to the limit server, which knows positions instead of offsets"""


@dataclass(frozen=True)
class Outcome:
    """What one worker saw acknowledged."""

    requests: int
    records: int
    payload_bytes: int
    seconds: float
    cpu_seconds: float
    """Of the worker itself: near `seconds` means that the generator was the bottleneck"""


class RefusedError(Exception):
    """The server answered with an error code, or not what was asked."""


class Connection(Protocol):
    """One pipeline of requests."""

    @property
    def requests(self) -> int:
        """Requests answered without an error."""

    @property
    def records(self) -> int:
        """Records in them."""

    @property
    def payload_bytes(self) -> int:
        """Bytes of whole batches in them."""

    def send(self, count: int) -> None:
        """Put `count` more requests in flight."""

    def receive(self) -> int:
        """Wait for answers and return how many came."""


def connect(host: str, port: int) -> socket.socket:
    """A blocking socket whose waits end in the kernel after `WAIT_S_MAX`.

    (A Python timeout would add a poll to every call.)
    """
    sock = socket.create_connection((host, port), timeout=WAIT_S_MAX)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wait = struct.pack("ll", WAIT_S_MAX, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    return sock


class ProducePipe:
    """Produce requests on one connection."""

    def __init__(self, sock: socket.socket, frame: bytes, batch: Batch, depth: int) -> None:
        self._sock = sock
        self._batch = batch
        self._frame_bytes = len(frame)
        self._slots = max(1, min(depth, SLOTS_BYTES // len(frame)))
        self._out = bytearray(frame * self._slots)
        self._out_view = memoryview(self._out)
        self._in = bytearray(ANSWER_BYTES)
        self._in_view = memoryview(self._in)
        self._filled = 0
        self._sent = 0
        self.requests = 0

    @property
    def records(self) -> int:
        """Records acknowledged."""
        return self.requests * self._batch.records

    @property
    def payload_bytes(self) -> int:
        """Bytes of batches acknowledged."""
        return self.requests * len(self._batch.data)

    def send(self, count: int) -> None:
        """Put `count` more requests in flight."""
        while count > 0:
            run = min(count, self._slots)
            for slot in range(run):
                at = slot * self._frame_bytes + frames.CORRELATION_AT
                frames.CORRELATION.pack_into(self._out, at, self._sent)
                self._sent += 1
            self._sock.sendall(self._out_view[: run * self._frame_bytes])
            count -= run

    def receive(self) -> int:
        """Wait for answers and return how many came."""
        got = self._sock.recv_into(self._in_view[self._filled :])
        if not got:
            raise RefusedError("the server closed the connection")
        at, filled, before = 0, self._filled + got, self.requests
        while filled - at >= frames.PRODUCE_ANSWER.size:
            size, correlation, error = frames.PRODUCE_ANSWER.unpack_from(self._in, at)
            if at + 4 + size > filled:
                break
            if correlation != self.requests:
                raise RefusedError(f"answer {correlation} instead of {self.requests}")
            if error:
                raise RefusedError(f"error code {error} to a Produce request")
            self.requests += 1
            at += 4 + size
        if at < filled:
            self._in[: filled - at] = self._in[at:filled]
        self._filled = filled - at
        return self.requests - before


class FetchPipe:
    """Fetch requests on one connection, one after the other over a stretch, over and over."""

    def __init__(self, sock: socket.socket, load: Load) -> None:
        self._sock = sock
        self._load = load
        self._out = bytearray(frames.fetch(load.topic, bytes_max=load.fetch_bytes))
        self._in = bytearray(load.fetch_bytes + ANSWER_BYTES)
        self._in_view = memoryview(self._in)
        self._offset = load.start_offset
        self.requests = 0
        self.records = 0
        self.payload_bytes = 0

    def send(self, count: int) -> None:
        """Ask for what follows the last answer; only one request can be in flight."""
        if count:
            frames.CORRELATION.pack_into(self._out, frames.CORRELATION_AT, self.requests)
            frames.OFFSET.pack_into(self._out, frames.FETCH_OFFSET_AT, self._offset)
            self._sock.sendall(self._out)

    def receive(self) -> int:
        """Wait for the whole answer and find the next offset in its batch headers."""
        self._receive_exactly(0, 4)
        size = frames.CORRELATION.unpack_from(self._in)[0]
        if not frames.FETCH_ANSWER.size <= 4 + size <= len(self._in):
            raise RefusedError(f"a Fetch answer of {size} bytes")
        self._receive_exactly(4, 4 + size)
        _, correlation, error, partition_error, _ = frames.FETCH_ANSWER.unpack_from(self._in)
        if correlation != self.requests:
            raise RefusedError(f"answer {correlation} instead of {self.requests}")
        if error or partition_error:
            raise RefusedError(f"error code {error or partition_error} to a Fetch request")
        self._count(4 + size - len(frames.PRODUCE_TAIL))
        self.requests += 1
        return 1

    def _receive_exactly(self, start: int, end: int) -> None:
        got = self._sock.recv_into(self._in_view[start:end], end - start, socket.MSG_WAITALL)
        if got != end - start:
            raise RefusedError("the server closed the connection")

    def _count(self, end: int) -> None:
        at = frames.FETCHED_LENGTH_AT
        while self._in[at] > 0x7F:
            at += 1
        at += 1
        start, next_offset = at, self._offset
        while at + 61 <= end:
            base, length, last_delta, count = _BATCH_WALK.unpack_from(self._in, at)
            if length < 49 or at + 12 + length > end:
                break
            at += 12 + length
            next_offset = base + last_delta + 1
            self.records += count
        if at == start:
            raise RefusedError(f"a Fetch answer without a whole batch at offset {self._offset}")
        self.payload_bytes += at - start
        if self._load.offsets_are_bytes:
            next_offset = self._offset + at - start
        is_over = next_offset >= self._load.end_offset
        self._offset = self._load.start_offset if is_over else next_offset


def open_pipes(load: Load) -> list[Connection]:
    """Connect everything the load asks for."""
    if load.kind == "consume":
        return [FetchPipe(connect(load.host, load.port), load) for _ in range(load.connections)]
    batch = build_batch(load.batch_bytes)
    frame = frames.produce(load.topic, batch.data, acks=load.acks)
    return [
        ProducePipe(connect(load.host, load.port), frame, batch, load.depth)
        for _ in range(load.connections)
    ]


def drive(pipes: list[Connection], load: Load) -> Outcome:
    """Keep every pipe full until enough requests are sent or the time is over; then drain."""
    depth = 1 if load.kind == "consume" else load.depth
    left = load.requests_max
    in_flight = [0] * len(pipes)
    began, cpu = time.perf_counter(), time.process_time()
    deadline = began + load.seconds_max
    for index, pipe in enumerate(pipes):
        in_flight[index] = min(depth, left)
        pipe.send(in_flight[index])
        left -= in_flight[index]
    while any(in_flight):
        for index, pipe in enumerate(pipes):
            if not in_flight[index]:
                continue
            got = pipe.receive()
            more = min(got, left) if time.perf_counter() < deadline else 0
            pipe.send(more)
            left -= more
            in_flight[index] += more - got
    seconds = time.perf_counter() - began
    return Outcome(
        requests=sum(pipe.requests for pipe in pipes),
        records=sum(pipe.records for pipe in pipes),
        payload_bytes=sum(pipe.payload_bytes for pipe in pipes),
        seconds=seconds,
        cpu_seconds=time.process_time() - cpu,
    )


def main() -> None:
    """Serve loads from stdin until it closes."""
    for line in sys.stdin:
        load = Load(**json.loads(line))
        try:
            pipes = open_pipes(load)
            print("{}", flush=True)
            sys.stdin.readline()
            print(json.dumps(asdict(drive(pipes, load))), flush=True)
        except (RefusedError, OSError) as problem:
            print(json.dumps({"problem": f"{type(problem).__name__}: {problem}"}), flush=True)


if __name__ == "__main__":
    main()
