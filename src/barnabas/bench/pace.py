"""A producer at a steady pace and a consumer at its heels: how long acknowledgement and delivery
take. A process of its own that obeys its stdin: one JSON `Order` in, one JSON `Waits` out.

    python -m barnabas.bench.pace
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from barnabas.link.aio import Link, connect
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import encode_batch

_PRODUCE_VERSION: Final = 11
_FETCH_VERSION: Final = 12
_RECORDS: Final = 10
_VALUE: Final = bytes(1000)
_FETCH_BYTES: Final = 1024 * 1024
_WAIT_MS: Final = 500
_LATE_S: Final = 30.0
_TIMEOUT_MS: Final = 30_000
_ALL: Final = -1


@dataclass(frozen=True)
class Order:
    """How fast, how long, and where."""

    host: str
    port: int
    topic: str
    per_second: float
    seconds: float


@dataclass(frozen=True)
class Waits:
    """Seconds, of all requests and records of the run, sorted."""

    acknowledged: list[float]
    delivered: list[float]


class Pace:
    """One run."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._sent_at: dict[int, float] = {}
        """By first offset; noted before the answer tells it, since batches have one size."""
        self._acknowledged: list[float] = []
        self._delivered: list[float] = []
        self._last = -1
        """The first offset of the last batch, once all are written."""

    async def run(self) -> Waits:
        """Until the time is over and everything has arrived."""
        order = self._order
        async with (
            await connect(order.host, order.port, timeout_s=_LATE_S) as writer,
            await connect(order.host, order.port, timeout_s=_LATE_S) as reader,
        ):
            next_offset = await self._send(writer, time.perf_counter())
            reading = asyncio.create_task(self._read(reader, next_offset))
            await self._write(writer)
            async with asyncio.timeout(_LATE_S):
                await reading
        return Waits(sorted(self._acknowledged), sorted(self._delivered))

    async def _write(self, link: Link) -> None:
        """Whoever is late is not waited for: a stall must show in every request it holds up."""
        order = self._order
        began = time.perf_counter()
        tasks = []
        for number in range(int(order.per_second * order.seconds)):
            due = began + number / order.per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(self._send(link, due)))
        await asyncio.gather(*tasks)
        self._last = max(self._sent_at)

    async def _send(self, link: Link, due: float) -> int:
        key = str(len(self._sent_at) % 1000).encode()
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch([(now_ms, key, _VALUE, [])] * _RECORDS)
        partition = ProducePartition(0, memoryview(bytearray(batch)))
        topic = ProduceTopic(self._order.topic, None, [partition])
        request = ProduceRequest(None, _ALL, _TIMEOUT_MS, [topic])
        answer = await link.produce(_PRODUCE_VERSION, request)
        result = answer.topics[0].partitions[0] if answer is not None else None
        if result is None or result.error:
            code = "no answer" if result is None else ErrorCode(result.error).name
            raise BarnabasError(f"A Produce request was refused: {code}.")
        self._sent_at[result.base_offset] = due
        self._acknowledged.append(time.perf_counter() - due)
        return result.base_offset + _RECORDS

    async def _read(self, link: Link, offset: int) -> None:
        arrived: dict[int, float] = {}
        while self._last < 0 or offset <= self._last:
            partition = FetchPartition(0, -1, offset, -1, -1, _FETCH_BYTES)
            topic = FetchTopic(self._order.topic, None, [partition])
            answer = await link.fetch(
                _FETCH_VERSION,
                FetchRequest(-1, -1, _WAIT_MS, 1, _FETCH_BYTES, 0, 0, -1, [topic], []),
            )
            found = answer.topics[0].partitions[0]
            if found.error:
                raise BarnabasError(f"A Fetch was refused: {ErrorCode(found.error).name}.")
            now = time.perf_counter()
            for _, header in walk(found.records or b""):
                arrived[header.base_offset] = now
                offset = header.last_offset + 1
        self._delivered = [at - self._sent_at[first] for first, at in arrived.items()]


def percentile(values: Sequence[float], share: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(len(values) * share))]


def main() -> None:
    """Carry out one order after the other."""
    for line in sys.stdin:
        waits = asyncio.run(Pace(Order(**json.loads(line))).run())
        print(json.dumps(asdict(waits)), flush=True)


if __name__ == "__main__":
    main()
