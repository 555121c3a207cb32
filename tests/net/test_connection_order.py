"""Whatever is sent, however it is cut and whoever is slow: the same requests, the same order."""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.net.connection import Connection
from barnabas.net.limits import NetLimits
from barnabas.net.listener import Listener
from barnabas.ports.exchange import Frames, Later, Peer, Reply

SYNC, SILENT, OVERLAPPING, OVERLAPPING_SILENT, EXCLUSIVE = range(5)

LIMITS = NetLimits(
    frame_bytes_min=2,
    receive_buffer_bytes=64,
    receive_growth_bytes_max=128,
    requests_in_flight_max=3,
    outbox_bytes_max=200,
    frames_per_turn_max=4,
)


class RecordingTransport(asyncio.Transport):
    """Takes what is written; `drain` is the peer reading."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Connection | None = None
        self.written = bytearray()
        self.writes = 0
        self.unsent = 0
        self.unsent_most = 0
        self.paused = False
        self.closed = False
        self._high = 0
        self._choked = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 4711)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.writes += 1
        self.written += data
        self.unsent += len(data)
        self.unsent_most = max(self.unsent, self.unsent_most)
        if self.unsent > self._high and not self._choked and self.protocol is not None:
            self._choked = True
            self.protocol.pause_writing()

    def drain(self) -> None:
        self.unsent = 0
        if self._choked and self.protocol is not None:
            self._choked = False
            self.protocol.resume_writing()

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False

    def deliver(self, data: bytes) -> None:
        assert self.protocol is not None
        while data:
            room = memoryview(self.protocol.get_buffer(-1))
            taken = min(len(room), len(data))
            room[:taken] = data[:taken]
            data = data[taken:]
            self.protocol.buffer_updated(taken)


@dataclass
class Api:
    """Does as the first byte of a request says, for as many turns of the loop as the second."""

    seen: list[bytes] = field(default_factory=list)
    exclusive: bool = False
    in_flight: int = 0
    in_flight_most: int = 0

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply:
        assert not self.exclusive, "nothing may be dispatched while an exclusive request runs"
        request = bytes(frame)
        self.seen.append(request)
        kind, turns = request[0] % 5, request[1] % 7
        if kind == SYNC:
            return answer_to(request)
        if kind == SILENT:
            return None
        if kind == EXCLUSIVE:
            self.exclusive = True
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight, self.in_flight_most)
        return Later(self._wait(request, turns), overlaps=kind != EXCLUSIVE)

    async def _wait(self, request: bytes, turns: int) -> Frames | None:
        for _ in range(turns):
            await asyncio.sleep(0)
        self.exclusive = False
        self.in_flight -= 1
        return None if request[0] % 5 == OVERLAPPING_SILENT else answer_to(request)


def answer_to(request: bytes) -> Frames:
    return [b"re:", memoryview(request), bytearray(request[:1])]


def expected(requests: list[bytes]) -> bytes:
    answers = (
        b"".join(answer_to(request))
        for request in requests
        if request[0] % 5 not in (SILENT, OVERLAPPING_SILENT)
    )
    return b"".join(struct.pack(">i", len(answer)) + answer for answer in answers)


async def until(condition: Callable[[], bool], transport: RecordingTransport) -> None:
    for _ in range(100_000):
        if condition():
            return
        transport.drain()
        await asyncio.sleep(0)
    raise AssertionError("it never came")


async def run_direct(requests: list[bytes], cuts: list[int], *, polite: bool) -> None:
    api = Api()
    listener = Listener(api.dispatch, LIMITS)
    await listener.start("127.0.0.1", 0)
    transport = RecordingTransport()
    transport.protocol = connection = Connection(listener)
    connection.connection_made(transport)
    stream = b"".join(struct.pack(">i", len(each)) + each for each in requests)
    for cut in [*cuts, len(stream)]:
        if polite:
            await until(lambda: not transport.paused, transport)
        transport.deliver(stream[:cut])
        stream = stream[cut:]
    want = expected(requests)
    await until(lambda: len(api.seen) == len(requests), transport)
    await until(lambda: len(transport.written) >= len(want), transport)
    assert api.seen == requests
    assert bytes(transport.written) == want
    assert api.in_flight_most <= LIMITS.requests_in_flight_max
    largest = max((len(each) for each in requests), default=0) + 8
    assert transport.unsent_most <= LIMITS.outbox_bytes_max + 3 * largest + 32
    await until(lambda: not transport.paused, transport)
    connection.connection_lost(None)
    await listener.stop(1.0)


REQUESTS = st.lists(st.binary(min_size=2, max_size=300), max_size=20)
CUTS = st.lists(st.integers(min_value=1, max_value=400), max_size=20)


@settings(deadline=None)
@given(requests=REQUESTS, cuts=CUTS, polite=st.booleans())
def test_any_cutting_gives_the_same_dispatches_and_answers(
    requests: list[bytes], cuts: list[int], polite: bool
) -> None:
    """`polite`: whether the transport keeps from delivering while it is paused."""
    asyncio.run(run_direct(requests, cuts, polite=polite))


async def run_on_sockets(requests: list[bytes], cuts: list[int]) -> None:
    api = Api()
    listener = Listener(api.dispatch, LIMITS)
    _, port = await listener.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stream = b"".join(struct.pack(">i", len(each)) + each for each in requests)
    for cut in [*cuts, len(stream)]:
        writer.write(stream[:cut])
        await asyncio.sleep(0)
        stream = stream[cut:]
    want = expected(requests)
    async with asyncio.timeout(30):
        assert await reader.readexactly(len(want)) == want
        while len(api.seen) < len(requests):
            await asyncio.sleep(0)
    assert api.seen == requests
    await listener.stop(5.0)
    assert await reader.read() == b""
    writer.close()


@settings(deadline=None, max_examples=40)
@given(requests=REQUESTS, cuts=CUTS)
def test_the_same_on_real_sockets(requests: list[bytes], cuts: list[int]) -> None:
    asyncio.run(run_on_sockets(requests, cuts))


def test_small_answers_of_one_read_leave_in_one_write() -> None:
    async def test() -> None:
        listener = Listener(lambda peer, frame: (b"answer", bytes(frame)), NetLimits())
        await listener.start("127.0.0.1", 0)
        transport = RecordingTransport()
        transport.protocol = connection = Connection(listener)
        connection.connection_made(transport)
        transport.deliver((struct.pack(">i", 10) + b"0123456789") * 50)
        assert transport.writes == 1
        assert bytes(transport.written) == (struct.pack(">i", 16) + b"answer0123456789") * 50
        connection.connection_lost(None)
        await listener.stop(1.0)

    asyncio.run(test())


def test_waiting_answers_that_end_together_leave_in_one_write() -> None:
    async def test() -> None:
        gate = asyncio.Event()

        async def wait() -> Frames:
            await gate.wait()
            return [b"done"]

        listener = Listener(lambda peer, frame: Later(wait(), overlaps=True))
        await listener.start("127.0.0.1", 0)
        transport = RecordingTransport()
        transport.protocol = connection = Connection(listener)
        connection.connection_made(transport)
        transport.deliver((struct.pack(">i", 8) + bytes(8)) * 5)
        gate.set()
        await until(lambda: len(transport.written) == 40, transport)
        assert transport.writes == 1
        connection.connection_lost(None)
        await listener.stop(1.0)

    asyncio.run(test())


def test_a_turn_is_bounded_however_much_one_read_brings() -> None:
    async def test() -> None:
        seen = 0

        def dispatch(peer: Peer, frame: memoryview) -> Reply:
            nonlocal seen
            seen += 1
            return None

        listener = Listener(dispatch, NetLimits(frames_per_turn_max=10))
        await listener.start("127.0.0.1", 0)
        transport = RecordingTransport()
        transport.protocol = connection = Connection(listener)
        connection.connection_made(transport)
        transport.deliver((struct.pack(">i", 8) + bytes(8)) * 35)
        assert seen == 10
        assert transport.paused
        await until(lambda: seen == 35, transport)
        assert not transport.paused
        connection.connection_lost(None)
        await listener.stop(1.0)

    asyncio.run(test())
