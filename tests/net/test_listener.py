"""Opening, refusing, counting and closing."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from barnabas.model.errors import BarnabasError
from barnabas.net.limits import NetLimits
from barnabas.net.listener import Listener
from barnabas.ports.exchange import Frames, Later, Peer, Reply

if TYPE_CHECKING:
    from tests.net.conftest import Client, Rig


def echo(peer: Peer, frame: memoryview) -> Reply:
    return [bytes(frame)]


def test_a_taken_port_is_said_in_one_sentence(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(echo) as served:
            for host in ("127.0.0.1", "localhost"):
                second = Listener(echo)
                with pytest.raises(BarnabasError) as caught:
                    await second.start(host, served.port)
                assert str(caught.value).startswith(f"port {served.port} on {host} is in use: ")
                await second.stop(0.0)
            assert await (await served.connect()).ask(b"unharmed") == b"unharmed"

    rig.run(test())


def test_a_foreign_address_and_an_unknown_host_are_said_too(rig: Rig) -> None:
    async def test() -> None:
        with pytest.raises(BarnabasError, match="not an address of this machine"):
            await Listener(echo).start("192.0.2.1", 0)
        with pytest.raises(BarnabasError, match="can not be resolved"):
            await Listener(echo).start("no such host", 0)

    rig.run(test())


def has_ipv6_loopback() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        return probe.connect_ex(("::1", 1)) == errno.ECONNREFUSED


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no ::1")
def test_localhost_is_both_loopbacks_on_one_port(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(echo, host="localhost") as served:
            for address in ("127.0.0.1", "::1"):
                client = await served.connect(address)
                assert await client.ask(b"greeting") == b"greeting"

    rig.run(test())


def test_localhost_without_one_family_is_the_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.net.listener._LOOPBACKS", ("127.0.0.1", "2001:db8::1"))

    async def test() -> None:
        async with rig.serving(echo, host="localhost") as served:
            assert await (await served.connect()).ask(b"greeting") == b"greeting"

    rig.run(test())


def test_answers_are_not_delayed_for_more(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(echo) as served:
            client = await served.connect()
            await client.ask(b"greeting")
            (connection,) = served.listener._connections
            accepted = connection._transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    rig.run(test())


def test_too_many_connections_are_refused_and_counted(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with rig.serving(echo, NetLimits(connections_max=2)) as served:
            first, second = await served.connect(), await served.connect()
            assert await first.ask(b"one place") == b"one place"
            assert await second.ask(b"one place") == b"one place"
            for _ in range(5):
                refused = await served.connect()
                assert await refused.rest() == b""
            counters = served.listener.counters
            assert (counters.connections_open, counters.connections_refused) == (2, 5)
            first.close()
            while served.listener.counters.connections_open == 2:
                await asyncio.sleep(0)
            third = await served.connect()
            assert await third.ask(b"one place") == b"one place"
            assert served.listener.counters.connections_total == 3
            assert served.listener.counters.requests == 3

    rig.run(test())
    assert "Refused 127.0.0.1:" in caplog.text
    assert caplog.text.count("Refused") < 5


def test_a_thousand_connections(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(echo) as served:

            async def one(number: int) -> Client:
                client = await served.connect()
                payload = b"client %04d" % number
                assert await client.ask(payload) == payload
                return client

            clients: list[Client] = []
            for start in range(0, 1000, 100):
                clients += await asyncio.gather(*map(one, range(start, start + 100)))
            assert served.listener.counters.connections_open == 1000
            for client in clients:
                client.send(b"once more")
            assert {await client.answer() for client in clients} == {b"once more"}
            await served.listener.stop(10.0)
            assert served.listener.counters.connections_open == 0
            assert served.listener.counters.requests == 2000

    rig.run(test())


class Slow:
    """Answers when the test opens the gate."""

    def __init__(self) -> None:
        self.seen = 0
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.cancelled = False

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply:
        self.seen += 1
        return Later(self.wait(), overlaps=True)

    async def wait(self) -> Frames:
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return [b"in the end"]


def test_stop_lets_requests_in_flight_end_and_takes_no_others(rig: Rig) -> None:
    async def test() -> None:
        slow = Slow()
        async with rig.serving(slow.dispatch) as served:
            client, idle = await served.connect(), await served.connect()
            client.send(b"in flight")
            await slow.begun.wait()
            stopping = asyncio.create_task(served.listener.stop(20.0))
            assert await idle.rest() == b""
            client.send(b"not any more")
            with pytest.raises(ConnectionError):
                await served.connect()
            assert not stopping.done()
            slow.gate.set()
            assert await client.answer() == b"in the end"
            assert await client.rest() == b""
            await stopping
            assert slow.seen == 1
            assert not slow.cancelled

    rig.run(test())


def test_stop_closes_all_when_the_grace_is_over(rig: Rig) -> None:
    async def test() -> None:
        slow = Slow()
        async with rig.serving(slow.dispatch) as served:
            client = await served.connect()
            client.send(b"in flight")
            await slow.begun.wait()
            await served.listener.stop(0.05)
            assert slow.cancelled
            assert await client.rest() == b""
            assert served.listener.counters.connections_open == 0

    rig.run(test())


def test_stop_does_not_wait_for_a_peer_that_never_reads(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(lambda peer, frame: [bytes(50_000_000)]) as served:
            client = await served.connect()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.send(b"a lot, please")
            while not served.listener.counters.requests:
                await asyncio.sleep(0)
            await served.listener.stop(0.05)
            assert served.listener.counters.connections_open == 0

    rig.run(test())


def test_the_port_is_free_again_after_stop(rig: Rig) -> None:
    async def test() -> None:
        async with rig.serving(echo) as served:
            client = await served.connect()
            await client.ask(b"greeting")
            await served.listener.stop(5.0)
            again = Listener(echo)
            assert await again.start("127.0.0.1", served.port) == ("127.0.0.1", served.port)
            await again.stop(0.0)

    rig.run(test())


OUT_OF_DESCRIPTORS = """
import asyncio, resource, sys
from barnabas.net.listener import Listener

async def main():
    listener = Listener(lambda peer, frame: [bytes(frame)])
    _, port = await listener.start("127.0.0.1", 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await listener.stop(0.0)

if sys.argv[1] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


def test_running_out_of_descriptors_passes(rig: Rig) -> None:
    """In a process of its own, because the limit is the process's."""
    with subprocess.Popen(
        [sys.executable, "-c", OUT_OF_DESCRIPTORS, rig.loop],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        assert answered(crowd[0])
        for each in crowd:
            each.close()
        # Until the server has noticed that the crowd is gone, it may still turn us away.
        while not answered(socket.create_connection(("127.0.0.1", port))):
            assert server.poll() is None
        server.stdin.close()
        assert server.wait(30) == 0


def answered(sock: socket.socket) -> bool:
    """Whether a greeting comes back, and not the end of the connection."""
    sock.settimeout(30)
    try:
        sock.sendall(b"\0\0\0\x08greeting")
        return sock.recv(12, socket.MSG_WAITALL) == b"\0\0\0\x08greeting"
    except ConnectionError:
        return False
    finally:
        sock.close()
