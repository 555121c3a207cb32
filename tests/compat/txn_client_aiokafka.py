"""aiokafka's transactions behind the common port; calls run to their end on a loop of their own."""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced  # type: ignore[import-untyped]
from tests.compat.txn_port import (
    COMMITTED,
    TIMEOUT_MS,
    WAIT_S,
    Copy,
    Reading,
    TxnClient,
    TxnRefusedError,
)

R = TypeVar("R")


class AiokafkaTxn(TxnClient):
    """The asyncio library: the old generation of transactions, by old versions."""

    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._runner = asyncio.Runner()
        self._producer: AIOKafkaProducer = None

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        try:
            return self._runner.run(asyncio.wait_for(work, WAIT_S))
        except (ProducerFenced, InvalidProducerEpoch) as error:
            raise TxnRefusedError("PRODUCER_FENCED", str(error)) from error
        except KafkaError as error:
            raise TxnRefusedError(type(error).__name__, str(error)) from error

    def open(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        async def start() -> None:
            self._producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await self._producer.start()

        self._run(start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, values: Sequence[str]) -> None:
        async def send() -> None:
            sent = [
                await self._producer.send(topic, value.encode(), partition=partition)
                for value in values
            ]
            await asyncio.gather(*sent)

        self._run(send())

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {TopicPartition(topic, number): offset for number, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(rows, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def read(self, topic: str, partition: int, until: str, how: Reading = COMMITTED) -> list[str]:
        return self._run(self._read(TopicPartition(topic, partition), until, how))

    async def _read(self, where: Any, until: str, how: Reading) -> list[str]:
        consumer = self._consumer(None, committed=how.committed)
        await consumer.start()
        consumer.assign([where])
        consumer.seek(where, 0)
        values: list[str] = []
        deadline = time.monotonic() + WAIT_S
        try:
            while until not in values or time.monotonic() < deadline:
                assert time.monotonic() < deadline, f"{until} does not come, only {values}"
                found = (await consumer.getmany(where, timeout_ms=100)).get(where, ())
                values += [message.value.decode() for message in found]
                if found and until in values:
                    deadline = time.monotonic() + how.linger_s
            return values
        finally:
            await consumer.stop()

    def _consumer(self, group: str | None, *, committed: bool = True) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if committed else "read_uncommitted",
            fetch_max_wait_ms=100,
        )

    def copy(self, job: Copy, transactional_id: str) -> None:
        self.open(transactional_id)
        self._run(self._copy(job))

    async def _copy(self, job: Copy) -> None:
        consumer = self._consumer(job.group)
        await consumer.start()
        consumer.subscribe([job.source])
        done = turn = 0
        try:
            while done < job.count:
                found = await consumer.getmany(timeout_ms=200, max_records=job.batch)
                if not found:
                    continue
                turn += 1
                await self._copy_batch(job, found)
                if turn % job.abort_every == 0:
                    await self._producer.abort_transaction()
                    await consumer.seek_to_committed()
                else:
                    await self._producer.commit_transaction()
                    done += sum(map(len, found.values()))
        finally:
            await consumer.stop()

    async def _copy_batch(self, job: Copy, found: Mapping[Any, Sequence[Any]]) -> None:
        await self._producer.begin_transaction()
        for where, messages in found.items():
            for message in messages:
                await self._producer.send(
                    job.target, message.value + b"!", partition=where.partition
                )
        offsets = {where: messages[-1].offset + 1 for where, messages in found.items()}
        await self._producer.send_offsets_to_transaction(offsets, job.group)

    def close(self) -> None:
        if self._producer is not None:
            self._runner.run(self._producer.stop())
        self._runner.close()
