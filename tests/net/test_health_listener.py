"""The health listener on a real loop, with peers good and bad."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from barnabas.model import limits
from barnabas.model.errors import BarnabasError
from barnabas.net.health import HealthListener
from barnabas.net.http import Answered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.net.conftest import Rig


def answer(path: str) -> Answered | None:
    return Answered(HTTPStatus.OK, b'{"fine": true}') if path == "/health" else None


@asynccontextmanager
async def serving(wait_s: float = 30.0) -> AsyncIterator[tuple[HealthListener, int]]:
    listener = HealthListener(answer, wait_s=wait_s)
    _, port = await listener.start("127.0.0.1", 0)
    try:
        yield listener, port
    finally:
        await listener.stop()
    assert listener._visits == {}


async def said(port: int, *pieces: bytes, end: bool = False) -> bytes:
    """Everything that is answered to some bytes, until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        if end:
            writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_questions_are_answered(rig: Rig) -> None:
    async def test() -> None:
        async with serving() as (_, port):
            get = await said(port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert get.startswith(b"HTTP/1.1 200 OK\r\n")
            assert get.endswith(b'\r\n\r\n{"fine": true}')
            assert await said(port, *(bytes([b]) for b in b"GET /health HTTP/1.0\r\n\r\n")) == get
            head = await said(port, b"HEAD /health HTTP/1.1\r\n\r\n")
            assert get.startswith(head)
            assert head.endswith(b"\r\n\r\n")
            assert (await said(port, b"GET /no HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
            put = await said(port, b"PUT /health HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            assert put.startswith(b"HTTP/1.1 405 ")
            assert b"\r\nAllow: GET, HEAD\r\n" in put
            twice = await said(port, b"GET /health HTTP/1.1\r\n\r\n" * 2)
            assert twice.count(b"HTTP/1.1") == 1

    rig.run(test())


def test_strangers_do_no_harm(rig: Rig) -> None:
    async def test() -> None:
        async with serving() as (listener, port):
            assert (await said(port, b"\x16\x03\x01\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
            assert (await said(port, b"x" * 100_000)).split(b" ")[1:2] in ([b"431"], [])
            assert await said(port, b"GET /health", end=True) == b""
            assert await said(port, end=True) == b""
            assert (await said(port, b"GET /health HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert listener._visits == {}

    rig.run(test())


def test_whoever_says_nothing_has_to_go(rig: Rig) -> None:
    async def test() -> None:
        async with serving(wait_s=0.05) as (_, port):
            assert await said(port) == b""
            assert await said(port, b"GET /health HTTP/1.1\r\n") == b""

    rig.run(test())


def test_few_are_let_in_at_once_and_all_are_sent_home_at_the_end(rig: Rig) -> None:
    async def test() -> None:
        async with serving() as (listener, port):
            inside = [
                await asyncio.open_connection("127.0.0.1", port)
                for _ in range(limits.HEALTH_CONNECTIONS_MAX)
            ]
            while len(listener._visits) < limits.HEALTH_CONNECTIONS_MAX:
                await asyncio.sleep(0.01)
            assert await said(port, b"GET /health HTTP/1.1\r\n\r\n") == b""
            inside[0][1].close()
            while len(listener._visits) == limits.HEALTH_CONNECTIONS_MAX:
                await asyncio.sleep(0.01)
            assert (await said(port, b"GET /health HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await inside[1][0].readexactly(1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    rig.run(test())


def test_a_taken_port_is_said_in_one_sentence(rig: Rig) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(BarnabasError, match=f"port {port} on 127.0.0.1 is in use"):
                await HealthListener(answer).start("127.0.0.1", port)

    rig.run(test())
