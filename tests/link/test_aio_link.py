"""The driver for an event loop against a small broker."""

import asyncio
import socket
from typing import Any

import pytest

from barnabas.link.aio import connect
from barnabas.model.errors import DecodeError
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages import newest_type
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic

TOPIC_ID = bytes(range(16))


def find(*keys: str) -> Any:
    return newest_type(10, "request")(coordinator_keys=keys)


def produce_request(records: bytes, acks: int = -1) -> ProduceRequest:
    partition = ProducePartition(0, memoryview(records))
    return ProduceRequest(None, acks, 1000, [ProduceTopic("t", TOPIC_ID, [partition])])


def fetch_request(offset: int) -> FetchRequest:
    partition = FetchPartition(0, -1, offset, -1, -1, 2**20)
    topic = FetchTopic("t", TOPIC_ID, [partition])
    return FetchRequest(-1, -1, 0, 0, 2**20, 0, 0, -1, [topic], [])


def test_many_requests_at_once_get_each_its_own_answer(broker: Any) -> None:
    async def scenario() -> list[int]:
        async with await connect("127.0.0.1", broker.port) as link:
            calls = [link.call(10, index % 7, find("k" * index)) for index in range(1, 50)]
            responses = await asyncio.gather(*calls)
        return [response.coordinators[0].node_id for response in responses]

    assert asyncio.run(scenario()) == list(range(1, 50))


def test_records_come_back(broker: Any) -> None:
    large = bytes(range(256)) * 12_000

    async def scenario() -> None:
        async with await connect("127.0.0.1", broker.port) as link:
            assert await link.produce(13, produce_request(b"small", acks=0)) is None
            produced = await asyncio.gather(
                *(link.produce(version, produce_request(large)) for version in (3, 8, 9, 13))
            )
            offsets = [p.topics[0].partitions[0].base_offset for p in produced if p]
            assert offsets == [1, 2, 3, 4]
            fetched = await link.fetch(18, fetch_request(4))
            assert fetched.topics[0].partitions[0].records == large

    asyncio.run(scenario())


def test_a_request_that_times_out_leaves_the_connection_usable(broker: Any) -> None:
    """Its answer, when it comes after all, is for nobody."""

    async def scenario() -> None:
        async with await connect("127.0.0.1", broker.port) as link:
            impatient = asyncio.create_task(link.fetch(12, fetch_request(0)))
            await asyncio.sleep(0)
            impatient.cancel()
            response = await link.call(10, 4, find("group"))
            assert response.coordinators[0].node_id == 5
            assert link.is_open

    broker.records.append(b"x")
    asyncio.run(scenario())


def test_a_broker_that_says_nothing_times_out(broker: Any) -> None:
    async def scenario() -> None:
        async with await connect("127.0.0.1", broker.port, timeout_s=0.05) as link:
            with pytest.raises(TimeoutError):
                await link.call(10, 4, find("a coordinator that nobody finds"))

    asyncio.run(scenario())


def test_when_the_broker_hangs_up_everyone_who_waits_is_told(broker: Any) -> None:
    async def scenario() -> None:
        async with await connect("127.0.0.1", broker.port) as link:
            silent = asyncio.create_task(link.call(10, 4, find("a coordinator that nobody finds")))
            await asyncio.sleep(0)
            with pytest.raises(ConnectionError):
                await link.call(10, 4, find("a coordinator that ends the call"))
            with pytest.raises(ConnectionError):
                await silent
            assert not link.is_open
            with pytest.raises(ConnectionError):
                await link.call(10, 4, find("too late"))

    asyncio.run(scenario())


def test_closing_fails_what_still_waits(broker: Any) -> None:
    async def scenario() -> None:
        link = await connect("127.0.0.1", broker.port)
        waiting = asyncio.create_task(link.call(10, 4, find("a coordinator that nobody finds")))
        await asyncio.sleep(0)
        await link.close()
        with pytest.raises(ConnectionError):
            await waiting

    asyncio.run(scenario())


def test_a_peer_that_is_no_broker_is_an_error() -> None:
    async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async def scenario() -> None:
        server = await asyncio.start_server(answer_http, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            async with await connect("127.0.0.1", port) as link:
                with pytest.raises(DecodeError, match="is it a Kafka listener"):
                    await link.call(10, 4, find("group"))
                assert not link.is_open

    asyncio.run(scenario())


def test_nobody_there_is_an_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(connect("127.0.0.1", unused.getsockname()[1]))
