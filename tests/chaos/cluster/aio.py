"""aiokafka's clients, recorded like the others."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import aiokafka  # type: ignore[import-untyped]
from tests.chaos.history_readers import READ_COMMITTED
from tests.chaos.history_workers import Desk, WritingWorker
from tests.chaos.history_writers import Writer
from tests.chaos.load import Worker
from tests.chaos.talk import Place

_PATIENCE_MS: Final = 300_000
"""As long as librdkafka's producers go on."""
_METADATA_MS: Final = 2_000


class AioSending(WritingWorker):
    """Sends with idempotence."""

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.desk.address, acks="all", enable_idempotence=True, linger_ms=2,
            metadata_max_age_ms=_METADATA_MS, request_timeout_ms=_PATIENCE_MS,
        )  # fmt: skip
        await producer.start()
        writer = Writer(self.desk.recorder, self.name, self.places)
        try:
            while not self.stopping.is_set():
                await self._send(producer, writer)
                self.done += 1
                await asyncio.sleep(self.desk.pause_s)
        finally:
            await producer.stop()

    async def _send(self, producer: Any, writer: Writer) -> None:
        sends = writer.take(self.next_count())
        writer.recorder.note(self.name, "invoke", "send", sends.steps())
        under_way = [
            await producer.send(topic, value.encode(), partition=partition)
            for (topic, partition), value in sends.names
        ]
        answers = await asyncio.gather(*under_way, return_exceptions=True)
        for (_, value), answer in zip(sends.names, answers, strict=True):
            if isinstance(answer, BaseException):
                sends.failed += 1
            else:
                sends.offsets[value] = answer.offset if answer.offset >= 0 else None
        is_ok = sends.are_all_there
        writer.recorder.note(self.name, "ok" if is_ok else "info", "send", sends.steps())
        self.lacking += sends.lacking
        if is_ok:
            self.acknowledged(len(sends.names))


class AioFollower(Worker):
    """Reads what is committed, from the start."""

    def __init__(self, name: str, desk: Desk, places: Sequence[Place]) -> None:
        super().__init__(name, desk.journal)
        self._desk = desk
        self._places = [aiokafka.TopicPartition(*place) for place in places]

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self._desk.address, enable_auto_commit=False,
            metadata_max_age_ms=_METADATA_MS, isolation_level=READ_COMMITTED,
            auto_offset_reset="none",
        )  # fmt: skip
        await consumer.start()
        try:
            consumer.assign(self._places)
            for place in self._places:
                consumer.seek(place, 0)
            starts = [[*place, 0] for place in self._places]
            self._desk.recorder.note(self.name, "ok", "assign", starts)
            while not self.stopping.is_set():
                found = await consumer.getmany(timeout_ms=200)
                steps = [
                    ["poll", *place, [[each.offset, each.value.decode()] for each in records]]
                    for place, records in found.items()
                    if records
                ]
                if steps:
                    self._desk.recorder.note(self.name, "ok", "poll", steps)
        finally:
            await consumer.stop()
