"""A small broker that answers from memory, in a thread of its own, for the drivers to talk to."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from barnabas.model.errors import ErrorCode
from barnabas.wire.fetch import (
    FetchPartitionResult,
    FetchTopicResult,
    encode_fetch_response,
    parse_fetch_request,
)
from barnabas.wire.headers import RequestHeader, parse_request_header, response_header
from barnabas.wire.messages import decode_request, encode_response, newest_type
from barnabas.wire.produce import (
    ProducePartitionResult,
    ProduceTopicResult,
    encode_produce_response,
    parse_produce_request,
)
from barnabas.wire.reshape import element_type

SILENT = "a coordinator that nobody finds"
HANG_UP = "a coordinator that ends the call"
GARBLED = "a coordinator that speaks in riddles"


@dataclass
class SmallBroker:
    """Keeps the records it is sent, and gives them back."""

    port: int = 0
    client_ids: set[str | None] = field(default_factory=set)
    records: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4), "big")
                frame = memoryview(await reader.readexactly(length))
                header = parse_request_header(frame)
                self.client_ids.add(header.client_id)
                body = self.answer(header, frame)
                if body is None:
                    continue
                start = response_header(header.api_key, header.api_version, header.correlation_id)
                writer.write((len(start) + len(body)).to_bytes(4, "big") + start + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def answer(self, header: RequestHeader, frame: memoryview) -> bytes | None:
        version = header.api_version
        if header.api_key == 0:
            return self.take(version, frame, header.body_at)
        if header.api_key == 1:
            return self.give(version, frame, header.body_at)
        assert header.api_key == 10
        request = decode_request(10, version, frame[header.body_at :])
        if SILENT in request.coordinator_keys:
            return None
        if HANG_UP in request.coordinator_keys:
            raise ConnectionResetError
        if GARBLED in request.coordinator_keys:
            return b""
        response_type = newest_type(10, "response")
        coordinator = element_type(response_type, "coordinators")
        found = tuple(
            coordinator(
                key=key,
                node_id=len(key),
                host="localhost",
                port=self.port,
                error_code=ErrorCode.none,
                error_message=None,
            )
            for key in request.coordinator_keys
        )
        response = response_type(throttle_time=timedelta(0), coordinators=found)
        return encode_response(10, version, response)

    def take(self, version: int, frame: memoryview, position: int) -> bytes | None:
        request = parse_produce_request(version, frame, position)
        results = []
        for name, topic_id, partitions in request.topics:
            done = []
            for index, records in partitions:
                done.append(ProducePartitionResult(index, 0, len(self.records)))
                self.records.append(bytes(records or b""))
            results.append(ProduceTopicResult(name, topic_id, done))
        return encode_produce_response(version, results) if request.acks else None

    def give(self, version: int, frame: memoryview, position: int) -> bytes:
        request = parse_fetch_request(version, frame, position)
        results = []
        for name, topic_id, partitions in request.topics:
            found = [
                FetchPartitionResult(
                    partition.index,
                    0,
                    len(self.records),
                    records=self.records[partition.fetch_offset],
                )
                for partition in partitions
            ]
            results.append(FetchTopicResult(name, topic_id, found))
        return b"".join(encode_fetch_response(version, 0, 0, results))


@pytest.fixture
def broker() -> Iterator[SmallBroker]:
    small = SmallBroker()
    ready = threading.Event()
    stops: list[Callable[[], object]] = []

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        server = await asyncio.start_server(small.serve, "127.0.0.1", 0)
        small.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(10)
    yield small
    stops[0]()
    thread.join(10)
    assert not thread.is_alive()
