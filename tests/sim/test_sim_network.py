"""The simulated network under real asyncio protocols and streams."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import pytest

from barnabas.sim.loop import SimLoop, UnhandledError, run
from barnabas.sim.network import CONNECT_S_MAX, on_machine

SEEDS = range(8)


class Recorder(asyncio.Protocol):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.events: list[str] = []
        self.error: BaseException | None = None
        self.lost = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.events.append("eof")
        return False

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.error = exc
        self.lost.set_result(None)


class Buffered(asyncio.BufferedProtocol):
    """Takes bytes seven at a time."""

    def __init__(self) -> None:
        self.buffer = bytearray(7)
        self.received = bytearray()
        self.lost = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)


async def _pair(loop: SimLoop) -> tuple[Recorder, Recorder]:
    accepted: list[Recorder] = []

    def factory() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    server = await loop.create_server(factory, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, client = await loop.create_connection(Recorder, "127.0.0.1", port)
    await asyncio.sleep(0.1)
    assert isinstance(client, Recorder)
    return client, accepted[0]


def _with_pair(scenario: Callable[[Recorder, Recorder], Awaitable[None]], seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        await scenario(*await _pair(loop))

    run(main, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_echo_everything_in_order(seed: int) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(10_000):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main(loop: SimLoop) -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 9092)
        reader, writer = await asyncio.open_connection("127.0.0.1", 9092)
        data = bytes(range(256)) * 2_000
        received = loop.create_task(reader.read(-1))
        for start in range(0, len(data), 30_000):
            writer.write(data[start : start + 30_000])
            await writer.drain()
        writer.write_eof()
        assert await received == data
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()

    run(main, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_buffered_protocol_gets_every_byte(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        accepted: list[Buffered] = []

        def factory() -> Buffered:
            accepted.append(Buffered())
            return accepted[-1]

        await loop.create_server(factory, "127.0.0.1", 9092)
        transport, _ = await loop.create_connection(Recorder, "127.0.0.1", 9092)
        data = bytes(range(256)) * 10
        transport.write(data)
        transport.close()
        await asyncio.sleep(30)
        assert accepted[0].received == data
        assert accepted[0].lost.done()

    run(main, seed)


def test_a_reader_that_pauses_is_felt_by_the_writer() -> None:
    async def scenario(client: Recorder, server: Recorder) -> None:
        server.transport.pause_reading()
        client.transport.set_write_buffer_limits(high=10_000, low=1_000)
        client.transport.write(bytes(60_000))
        assert client.transport.get_write_buffer_size() == 0
        assert "pause" not in client.events
        client.transport.write(bytes(60_000))
        assert client.transport.get_write_buffer_size() > 10_000
        assert client.events == ["made", "pause"]
        await asyncio.sleep(60)
        assert client.events == ["made", "pause"]
        assert not server.received
        assert not server.transport.is_reading()
        server.transport.resume_reading()
        await asyncio.sleep(60)
        assert client.events == ["made", "pause", "resume"]
        assert len(server.received) == 120_000
        assert client.transport.get_write_buffer_size() == 0

    _with_pair(scenario, 3)


def test_close_delivers_what_was_written() -> None:
    async def scenario(client: Recorder, server: Recorder) -> None:
        client.transport.write(bytes(200_000))
        client.transport.close()
        assert client.transport.is_closing()
        client.transport.write(b"ignored after close")
        await server.lost
        await client.lost
        assert len(server.received) == 200_000
        assert server.events == ["made", "eof", "lost"]
        assert client.events[-1] == "lost"
        assert client.error is server.error is None

    for seed in SEEDS:
        _with_pair(scenario, seed)


def test_abort_resets_the_other_end() -> None:
    async def scenario(client: Recorder, server: Recorder) -> None:
        client.transport.abort()
        client.transport.abort()
        await client.lost
        await server.lost
        assert client.error is None
        assert isinstance(server.error, ConnectionResetError)
        assert server.events == ["made", "lost"]

    _with_pair(scenario, 1)


def test_half_close_lets_the_other_half_speak() -> None:
    async def scenario(client: Recorder, server: Recorder) -> None:
        server.eof_received = lambda: True  # type: ignore[method-assign]
        client.transport.write(b"question")
        client.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            client.transport.write(b"more")
        await asyncio.sleep(5)
        server.transport.write(b"answer")
        server.transport.close()
        await client.lost
        assert bytes(client.received) == b"answer"
        assert bytes(server.received) == b"question"

    _with_pair(scenario, 1)


def test_writing_to_an_end_that_is_gone_brings_a_reset() -> None:
    async def scenario(client: Recorder, server: Recorder) -> None:
        server.eof_received = lambda: True  # type: ignore[method-assign]
        client.transport.close()
        await asyncio.sleep(5)
        assert not server.lost.done()
        server.transport.write(b"too late")
        await server.lost
        assert isinstance(server.error, ConnectionResetError)

    _with_pair(scenario, 1)


def test_a_protocol_that_fails_loses_its_connection_and_the_run() -> None:
    ends: list[Recorder] = []

    async def scenario(client: Recorder, server: Recorder) -> None:
        def fail(data: bytes) -> None:
            raise ValueError("can not read this")

        ends.extend((client, server))
        server.data_received = fail  # type: ignore[method-assign]
        client.transport.write(b"x")
        await asyncio.gather(client.lost, server.lost)

    with pytest.raises(UnhandledError, match="can not read this"):
        _with_pair(scenario, 1)
    assert isinstance(ends[0].error, ConnectionResetError)
    assert isinstance(ends[1].error, ValueError)


def test_nobody_listening_is_refused_and_a_taken_port_too() -> None:
    async def main(loop: SimLoop) -> None:
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "127.0.0.1", 9092)
        server = await loop.create_server(Recorder, "127.0.0.1", 9092)
        with pytest.raises(OSError, match="taken"):
            await loop.create_server(Recorder, "127.0.0.1", 9092)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "127.0.0.1", 9092)
        assert not server.is_serving()
        assert server.sockets == ()
        await loop.create_server(Recorder, "127.0.0.1", 9092)

    run(main, 1)


def test_machines_have_their_own_ports_and_addresses() -> None:
    async def main(loop: SimLoop) -> None:
        told: list[tuple[str, str]] = []

        def factory_on(name: str) -> Callable[[], Recorder]:
            class Here(Recorder):
                def connection_made(self, transport: asyncio.BaseTransport) -> None:
                    super().connection_made(transport)
                    told.append((name, transport.get_extra_info("peername")[0]))

            return Here

        for name in ("one", "two"):
            with on_machine(name):
                await loop.create_server(factory_on(name), "0.0.0.0", 9092)
        with on_machine("one"):
            await loop.create_connection(Recorder, "two", 9092)
            await loop.create_connection(Recorder, "localhost", 9092)
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "localhost", 9092)
        await asyncio.sleep(1)
        assert told == [("two", "one"), ("one", "127.0.0.1")]

    run(main, 1)


def test_what_a_server_starts_runs_on_the_servers_machine() -> None:
    async def main(loop: SimLoop) -> None:
        answers: asyncio.Queue[str] = asyncio.Queue()
        tasks: list[asyncio.Future[None]] = []

        async def final(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answers.put_nowait(writer.get_extra_info("peername")[0])
            writer.close()

        async def call_onward() -> None:
            _, onward = await asyncio.open_connection("last", 1)
            onward.close()

        class Relay(Recorder):
            def data_received(self, data: bytes) -> None:
                tasks.append(asyncio.ensure_future(call_onward()))

        with on_machine("last"):
            await asyncio.start_server(final, None, 1)
        with on_machine("middle"):
            await loop.create_server(Relay, None, 1)
        with on_machine("first"):
            _, writer = await asyncio.open_connection("middle", 1)
        writer.write(b"x")
        assert await answers.get() == "middle"
        writer.close()

    run(main, 1)


def test_a_cut_holds_bytes_until_healed() -> None:
    async def main(loop: SimLoop) -> None:
        accepted: list[Recorder] = []

        def factory() -> Recorder:
            accepted.append(Recorder())
            return accepted[-1]

        with on_machine("b"):
            await loop.create_server(factory, None, 9092)
        with on_machine("a"):
            transport, _ = await loop.create_connection(Recorder, "b", 9092)
            loop.network.cut("a", "b")
            transport.write(b"held")
            began = loop.time()
            with pytest.raises(TimeoutError):
                await loop.create_connection(Recorder, "b", 9092)
            assert loop.time() - began == pytest.approx(CONNECT_S_MAX)
            assert not accepted[0].received
            loop.call_later(10, loop.network.heal, "b", "a")
            await loop.create_connection(Recorder, "b", 9092)
        await asyncio.sleep(1)
        assert bytes(accepted[0].received) == b"held"
        assert len(accepted) == 2

    run(main, 1)


def test_broken_connections_are_told_to_both_ends() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await _pair(loop)
        loop.network.break_all()
        await asyncio.gather(client.lost, server.lost)
        assert isinstance(client.error, ConnectionResetError)
        assert isinstance(server.error, ConnectionResetError)

    run(main, 1)


def test_connections_break_by_chance() -> None:
    async def main(loop: SimLoop) -> int:
        client, server = await _pair(loop)
        loop.network.break_chance = 0.05
        sent = 0
        while not client.lost.done():
            client.transport.write(b"12345678")
            sent += 8
            await asyncio.sleep(1)
        await server.lost
        assert len(server.received) < sent
        return sent

    assert len({run(main, seed) for seed in SEEDS}) > 1


def test_a_killed_machine_falls_silent_and_its_peers_see_resets() -> None:
    async def main(loop: SimLoop) -> None:
        accepted: list[Recorder] = []

        def factory() -> Recorder:
            accepted.append(Recorder())
            return accepted[-1]

        with on_machine("b"):
            await loop.create_server(factory, None, 9092)
        with on_machine("a"):
            _, client = await loop.create_connection(Recorder, "b", 9092)
            await asyncio.sleep(1)
            loop.network.kill_machine("b")
            assert isinstance(client, Recorder)
            await client.lost
            assert isinstance(client.error, ConnectionResetError)
            with pytest.raises(ConnectionRefusedError):
                await loop.create_connection(Recorder, "b", 9092)
        assert accepted[0].events == ["made"]

    run(main, 1)


def test_a_server_waits_for_its_connections() -> None:
    async def main(loop: SimLoop) -> None:
        accepted: list[Recorder] = []

        def factory() -> Recorder:
            accepted.append(Recorder())
            return accepted[-1]

        server = await loop.create_server(factory, None, 9092, start_serving=False)
        transport, _ = await loop.create_connection(Recorder, "localhost", 9092)
        await asyncio.sleep(1)
        assert not accepted
        await server.start_serving()
        await asyncio.sleep(1)
        assert len(accepted) == 1
        server.close()
        closed = loop.create_task(server.wait_closed())
        await asyncio.sleep(60)
        assert not closed.done()
        transport.close()
        await closed

    run(main, 1)


def test_what_a_transport_refuses() -> None:
    async def scenario(client: Recorder, server: Recorder) -> None:
        with pytest.raises(TypeError, match="bytes-like"):
            client.transport.write("text")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="must be >="):
            client.transport.set_write_buffer_limits(high=1, low=2)
        assert client.transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        assert client.transport.get_protocol() is client

    _with_pair(scenario, 1)


def test_the_same_seed_gives_the_same_traffic() -> None:
    async def main(loop: SimLoop) -> tuple[str, str]:
        loop.network.break_chance = 0.01
        pairs = [await _pair(loop) for _ in range(5)]
        for turn in range(50):
            for client, server in pairs:
                client.transport.write(bytes([turn]) * 500)
                server.transport.write(bytes([turn]) * 50)
            await asyncio.sleep(0.01)
        received = b"".join(bytes(end.received) for pair in pairs for end in pair)
        return loop.trace.digest(), hashlib.sha256(received).hexdigest()

    assert run(main, 5) == run(main, 5)
    assert run(main, 5) != run(main, 6)
