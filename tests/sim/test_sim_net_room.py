"""The broker's own listener on the simulated loop: the same code, virtual time."""

import asyncio
import struct

import pytest

from barnabas.net.listener import Listener
from barnabas.ports.exchange import Later, Peer, Reply
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.network import on_machine


def _dispatch(peer: Peer, frame: memoryview) -> Reply:
    """Answers with what was asked, at once or (for odd lengths) a minute later."""
    question = bytes(frame)
    if len(question) % 2 == 0:
        return [b"<", question, b">"]

    async def later() -> list[bytes]:
        await asyncio.sleep(60)
        return [b"(", question, b")"]

    return Later(later(), overlaps=True)


async def _answer(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _conversation(loop: SimLoop) -> tuple[float, str]:
    with on_machine("broker"):
        listener = Listener(_dispatch)
        await listener.start("localhost", 9092)
    questions = [bytes([number]) * (10 + number * 37) for number in range(40)]
    questions.append(b"L" * 300_000)
    with on_machine("client"):
        reader, writer = await asyncio.open_connection("broker", 9092)
    writer.write(b"".join(struct.pack(">i", len(each)) + each for each in questions))
    for question in questions:
        answer = await _answer(reader)
        assert answer[1:-1] == question
        assert answer[:1] == (b"(" if len(question) % 2 else b"<")
    writer.close()
    await listener.stop(5)
    return loop.time(), loop.trace.digest()


@pytest.mark.parametrize("seed", range(5))
def test_pipelined_questions_are_answered_in_order(seed: int) -> None:
    ended, trace = run(_conversation, seed)
    assert ended > 60
    assert (ended, trace) == run(_conversation, seed)


@pytest.mark.parametrize("seed", range(5))
def test_broken_connections_leave_the_listener_whole(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        listener = Listener(_dispatch)
        await listener.start("127.0.0.1", 9092)
        loop.network.break_chance = 0.1
        for _ in range(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", 9092)
            try:
                for _ in range(10):
                    writer.write(struct.pack(">i", 8) + b"question")
                    assert await _answer(reader) == b"<question>"
            except (ConnectionError, asyncio.IncompleteReadError):
                continue
            finally:
                writer.close()
        loop.network.break_chance = 0.0
        await asyncio.sleep(1)
        assert listener.counters.connections_open == 0
        await listener.stop(5)

    run(main, seed)
