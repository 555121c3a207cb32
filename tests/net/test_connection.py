"""Requests and answers over real sockets."""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.model.errors import DecodeError
from barnabas.net.limits import NetLimits
from barnabas.ports.exchange import Frames, Later, Peer, Reply

if TYPE_CHECKING:
    from tests.net.conftest import Rig


def echo(peer: Peer, frame: memoryview) -> Reply:
    return [bytes(frame)]


def test_byte_by_byte(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(echo) as served:
            client = await served.connect()
            for byte in (
                struct.pack(">i", 12) + b"twelve bytes" + struct.pack(">i", 8) + b"8 bytes."
            ):
                client.raw(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            assert await client.answer() == b"twelve bytes"
            assert await client.answer() == b"8 bytes."

    rig.run(test())


def test_many_frames_in_one_segment(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(echo) as served:
            client = await served.connect()
            payloads = [b"request %06d" % number for number in range(5000)]
            client.send(*payloads)
            assert [await client.answer() for _ in payloads] == payloads
            counters = served.listener.counters
            assert counters.requests == 5000
            assert counters.bytes_in == counters.bytes_out == 5000 * 18

    rig.run(test())


def test_large_frames_both_ways(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(echo) as served:
            client = await served.connect()
            for size in (3_000_000, 100_000, 1_000_000, 8):
                payload = bytes(range(256)) * (size // 256 + 1)
                assert await client.ask(payload) == payload

    rig.run(test())


def test_the_peer_is_known_by_its_addresses_and_remembers(rig: Rig) -> None:
    async def test() -> None:
        peers: list[Peer] = []

        def dispatch(peer: Peer, frame: memoryview) -> Reply:
            peers.append(peer)
            peer.state = (peer.state or 0) + 1
            return [b"%d" % peer.state]

        async with rig.serving(dispatch) as served:
            one, two = await served.connect(), await served.connect()
            assert await one.ask(b"greeting") == b"1"
            assert await one.ask(b"greeting") == b"2"
            assert await two.ask(b"greeting") == b"1"
            assert peers[0] is peers[1]
            assert peers[0].id != peers[2].id
            assert peers[0].remote == one.writer.get_extra_info("sockname")
            assert peers[0].local == ("127.0.0.1", served.port)

    rig.run(test())


class Gates:
    """Answers each request when the test says so."""

    def __init__(self, *, overlaps: bool) -> None:
        self.overlaps = overlaps
        self.seen: list[bytes] = []
        self.gates: dict[bytes, asyncio.Event] = {}
        self.ended: list[tuple[bytes, str]] = []
        self.changed = asyncio.Event()

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply:
        request = bytes(frame)
        self.note(self.seen, request)
        if request.startswith(b"sync"):
            return [request]
        self.gates[request] = asyncio.Event()
        overlaps = self.overlaps and not request.startswith(b"exclusive")
        return Later(self.wait(request), overlaps=overlaps)

    async def wait(self, request: bytes) -> Frames | None:
        try:
            await self.gates[request].wait()
        except asyncio.CancelledError:
            self.note(self.ended, (request, "cancelled"))
            raise
        self.note(self.ended, (request, "done"))
        return [request]

    def note(self, where: list[Any], what: object) -> None:
        where.append(what)
        self.changed.set()

    async def until(self, where: list[Any], count: int) -> None:
        while len(where) < count:
            self.changed.clear()
            await self.changed.wait()


def test_overlapping_answers_keep_the_order_of_their_requests(rig: Rig) -> None:
    async def test() -> None:
        api = Gates(overlaps=True)
        async with rig.serving(api.dispatch) as served:
            client = await served.connect()
            client.send(b"request 1", b"request 2", b"sync req 3", b"request 4")
            await api.until(api.seen, 4)
            api.gates[b"request 4"].set()
            api.gates[b"request 2"].set()
            await api.until(api.ended, 2)
            api.gates[b"request 1"].set()
            answers = [await client.answer() for _ in range(4)]
            assert answers == [b"request 1", b"request 2", b"sync req 3", b"request 4"]

    rig.run(test())


def test_an_exclusive_request_holds_up_its_own_connection_only(rig: Rig) -> None:
    async def test() -> None:
        api = Gates(overlaps=False)
        async with rig.serving(api.dispatch) as served:
            client, other = await served.connect(), await served.connect()
            client.send(b"exclusive", b"sync after")
            await api.until(api.seen, 1)
            client.send(b"sync last")
            for number in range(20):
                assert await other.ask(b"sync %04d" % number)
            assert b"sync after" not in api.seen
            api.gates[b"exclusive"].set()
            assert await client.answer() == b"exclusive"
            assert await client.answer() == b"sync after"
            assert await client.answer() == b"sync last"

    rig.run(test())


def test_a_disconnect_cancels_what_overlaps_and_lets_the_exclusive_end(rig: Rig) -> None:
    async def test() -> None:
        api = Gates(overlaps=True)
        async with rig.serving(api.dispatch) as served:
            client = await served.connect()
            client.send(b"overlaps 1", b"overlaps 2", b"exclusive")
            await api.until(api.seen, 3)
            client.close()
            await api.until(api.ended, 2)
            assert sorted(api.ended) == [(b"overlaps 1", "cancelled"), (b"overlaps 2", "cancelled")]
            api.gates[b"exclusive"].set()
            await api.until(api.ended, 3)
            assert api.ended[-1] == (b"exclusive", "done")
            assert served.listener.counters.connections_open == 0

    rig.run(test())


def test_no_more_than_so_many_requests_are_in_flight(rig: Rig) -> None:
    async def test() -> None:
        api = Gates(overlaps=True)
        limits = NetLimits(requests_in_flight_max=4)
        async with rig.serving(api.dispatch, limits) as served:
            client, other = await served.connect(), await served.connect()
            requests = [b"request %03d" % number for number in range(12)]
            client.send(*requests[:6])
            await api.until(api.seen, 4)
            client.send(*requests[6:])
            for number in range(20):
                await other.ask(b"sync %04d" % number)
            assert [each for each in api.seen if each in requests] == requests[:4]
            for request in requests:
                while request not in api.gates:
                    await api.until(api.seen, len(api.seen) + 1)
                api.gates[request].set()
                assert await client.answer() == request

    rig.run(test())


@pytest.mark.parametrize("size", [-1, 0, 7, 1_000_001, 0x47455420])
def test_an_absurd_frame_ends_its_connection_and_no_other(
    rig: Rig, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        limits = NetLimits(frame_bytes_max=1_000_000)
        async with rig.serving(echo, limits) as served:
            client, other = await served.connect(), await served.connect()
            client.send(b"answered still")
            client.raw(struct.pack(">i", size))
            assert await client.rest() == struct.pack(">i", 14) + b"answered still"
            assert await other.ask(b"unharmed") == b"unharmed"

    rig.run(test())
    (line,) = [record for record in caplog.records if record.name.startswith("barnabas")]
    assert f"a frame of {size} bytes is announced" in line.getMessage()
    assert line.exc_info is None


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("error", [DecodeError("bad varint"), RuntimeError("a bug")])
def test_an_exception_ends_its_connection_and_no_other(
    rig: Rig, error: Exception, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> Frames:
        await asyncio.sleep(0)
        raise error

    def dispatch(peer: Peer, frame: memoryview) -> Reply:
        if bytes(frame) != b"bad news":
            return [bytes(frame)]
        if waits:
            return Later(fail(), overlaps=True)
        raise error

    async def test() -> None:
        async with rig.serving(dispatch) as served:
            client, other = await served.connect(), await served.connect()
            client.send(b"good news", b"bad news", b"not sent any more")
            assert await client.rest() == struct.pack(">i", 9) + b"good news"
            assert await other.ask(b"unharmed") == b"unharmed"

    rig.run(test())
    (line,) = [record for record in caplog.records if record.name.startswith("barnabas")]
    if isinstance(error, DecodeError):
        assert "bad varint" in line.getMessage()
        assert line.exc_info is None
    else:
        assert line.levelno == logging.ERROR
        assert line.exc_info is not None


def test_a_failure_after_the_peer_has_gone_is_still_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def fail() -> Frames:
            begun.set()
            await gate.wait()
            raise RuntimeError("too late")

        async with rig.serving(lambda peer, frame: Later(fail(), overlaps=False)) as served:
            client = await served.connect()
            client.send(b"whatever")
            await begun.wait()
            client.close()
            while served.listener.counters.connections_open:
                await asyncio.sleep(0)
            gate.set()
            await served.listener.stop(10.0)

    rig.run(test())
    assert "after its peer had gone" in caplog.text
    assert "too late" in caplog.text


def test_a_kept_frame_is_an_error_and_not_another_requests_bytes(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    async def peek(frame: memoryview) -> Frames:
        return [bytes(frame)]

    async def test() -> None:
        async with rig.serving(lambda peer, frame: Later(peek(frame), overlaps=True)) as served:
            client = await served.connect()
            client.send(b"secret of one")
            assert await client.rest() == b""

    rig.run(test())
    assert "released memoryview" in caplog.text


def test_answers_of_any_buffer_type_and_size(rig: Rig) -> None:
    pieces: list[bytes | bytearray | memoryview] = [
        b"",
        b"head",
        bytearray(b"x" * 100_000),
        memoryview(b"y" * 300_000)[5:],
        b"tail",
    ]

    async def test() -> None:
        async with rig.serving(lambda peer, frame: pieces) as served:
            client = await served.connect()
            client.send(b"request 1", b"request 2")
            for _ in range(2):
                assert await client.answer() == b"".join(pieces)

    rig.run(test())
