"""Peers that are slow or silent cost little, are closed in the end, and harm nobody."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING

from barnabas.net.limits import NetLimits
from barnabas.ports.exchange import Frames, Later, Peer, Reply

if TYPE_CHECKING:
    from tests.net.conftest import Rig

ANSWER = b"a" * 64 * 1024


def echo(peer: Peer, frame: memoryview) -> Reply:
    return [bytes(frame)]


async def connect_lazily(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client with a small window, which reads only when told."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=sock, limit=16 * 1024)


class Hoard:
    """Large answers for the greedy; remembers how many it gave and what lay unsent."""

    def __init__(self) -> None:
        self.given = 0

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply:
        if bytes(frame) != b"give me much":
            return [bytes(frame)]
        self.given += 1
        return [ANSWER]


def test_a_slow_reader_is_bounded_and_harms_nobody(rig: Rig) -> None:
    async def test() -> None:
        hoard = Hoard()
        limits = NetLimits(outbox_bytes_max=256 * 1024)
        async with rig.serving(hoard.dispatch, limits) as served:
            reader, writer = await connect_lazily(served.port)
            writer.write((struct.pack(">i", 12) + b"give me much") * 1000)
            other = await served.connect()
            settled = -1
            while hoard.given == 0 or settled != hoard.given:
                settled = hoard.given
                for _ in range(50):
                    assert await other.ask(b"unharmed") == b"unharmed"
            unsent = max(each._outbox.unsent_bytes for each in served.listener._connections)
            assert unsent <= limits.outbox_bytes_max + 2 * len(ANSWER)
            assert hoard.given < 500
            for _ in range(1000):
                await reader.readexactly(4 + len(ANSWER))
            assert hoard.given == 1000
            writer.close()

    rig.run(test())


def test_answers_behind_an_unfinished_one_are_bounded_too(rig: Rig) -> None:
    async def test() -> None:
        gate = asyncio.Event()
        given = 0

        async def wait() -> Frames:
            await gate.wait()
            return [b"first"]

        def dispatch(peer: Peer, frame: memoryview) -> Reply:
            nonlocal given
            if bytes(frame) == b"wait for it":
                return Later(wait(), overlaps=True)
            if bytes(frame) == b"give me much":
                given += 1
                return [ANSWER]
            return [bytes(frame)]

        limits = NetLimits(outbox_bytes_max=256 * 1024)
        async with rig.serving(dispatch, limits) as served:
            client, other = await served.connect(), await served.connect()
            client.send(b"wait for it", *[b"give me much"] * 100)
            for _ in range(50):
                assert await other.ask(b"unharmed") == b"unharmed"
            assert given <= limits.outbox_bytes_max // len(ANSWER) + 1
            gate.set()
            assert await client.answer() == b"first"
            for _ in range(100):
                assert await client.answer() == ANSWER

    rig.run(test())


def test_a_peer_that_never_reads_is_closed(rig: Rig) -> None:
    async def test() -> None:
        hoard = Hoard()
        limits = NetLimits(outbox_bytes_max=256 * 1024, outbox_wait_s_max=0.2)
        async with rig.serving(hoard.dispatch, limits) as served:
            _, writer = await connect_lazily(served.port)
            writer.write((struct.pack(">i", 12) + b"give me much") * 1000)
            while not served.listener.counters.connections_total:
                await asyncio.sleep(0.01)
            while served.listener.counters.connections_open:
                await asyncio.sleep(0.01)
            assert hoard.given < 1000
            writer.close()

    rig.run(test())


def test_a_frame_that_stalls_is_given_up(rig: Rig) -> None:
    async def test() -> None:
        limits = NetLimits(frame_wait_s_max=0.2)
        async with rig.serving(echo, limits) as served:
            client = await served.connect()
            client.raw(struct.pack(">i", 100) + b"only so much")
            assert await client.rest() == b""

    rig.run(test())


def test_an_idle_connection_is_closed_but_not_one_that_waits_for_its_answer(rig: Rig) -> None:
    async def test() -> None:
        gate = asyncio.Event()

        async def wait() -> Frames:
            await gate.wait()
            return [b"at last"]

        limits = NetLimits(connection_idle_s_max=0.2)
        async with rig.serving(lambda peer, frame: Later(wait(), overlaps=True), limits) as served:
            waiting = await served.connect()
            waiting.send(b"patience")
            while not served.listener.counters.requests:
                await asyncio.sleep(0)
            for _ in range(2):
                idle = await served.connect()
                assert await idle.rest() == b""
            gate.set()
            assert await waiting.answer() == b"at last"
            assert await waiting.rest() == b""

    rig.run(test())


def test_memory_of_a_large_frame_is_given_back_when_quiet(rig: Rig) -> None:
    async def test() -> None:
        limits = NetLimits(connection_idle_s_max=3600, frame_wait_s_max=0.1)
        async with rig.serving(lambda peer, frame: [b"thanks"], limits) as served:
            client = await served.connect()
            assert await client.ask(bytes(2_000_000)) == b"thanks"
            (connection,) = served.listener._connections
            assert len(connection._inbox.buffer) == 2_000_004
            while len(connection._inbox.buffer) != limits.receive_buffer_bytes:
                await asyncio.sleep(0.01)
            assert await client.ask(bytes(2_000_000)) == b"thanks"

    rig.run(test())


def test_who_hangs_up_while_it_is_not_read_is_noticed(rig: Rig) -> None:
    """Its first request waits, its second lies unread: reading is paused, and tells nothing."""

    async def test() -> None:
        async def wait() -> Frames:
            await asyncio.Event().wait()
            return [b"never"]

        def dispatch(peer: Peer, frame: memoryview) -> Reply:
            return Later(wait(), overlaps=False, only_waits=True)

        limits = NetLimits(frame_wait_s_max=0.1, connection_idle_s_max=60.0)
        async with rig.serving(dispatch, limits) as served:
            client = await served.connect()
            client.send(b"wait for it", b"and then this")
            await client.writer.drain()
            while not any(each._paused for each in served.listener._connections):
                await asyncio.sleep(0.01)
            client.close()
            while served.listener._connections or served.listener._orphans:
                await asyncio.sleep(0.01)

    rig.run(test())
