"""Producers with acks=all: each batch is sent until it is acknowledged, and then remembered.

Every value is unique and tells whose it is: `name/number`, numbers rising within a partition. An
idempotent producer keeps several batches on their way; when one fails, it and those behind it are
sent again, in order.
"""

import asyncio
from typing import Final

from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.asking import request
from barnabas.sim.cluster.client import Client, NoAnswerError
from barnabas.sim.cluster.ledger import Ledger
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from barnabas.wire.records.record import NewRecord, encode_batch

INIT_PRODUCER_ID: Final = 22
_VERSION: Final = 9
_TIMEOUT_MS: Final = 4_000
_IN_FLIGHT: Final = 5
_STAMP_MS: Final = 1_700_000_000_000


class _Batch:
    """Records that are sent together."""

    __slots__ = ("sequence", "values")

    def __init__(self, values: list[bytes], sequence: int) -> None:
        self.values = values
        self.sequence = sequence


class Producer:
    """Writes to one partition for as long as it is wanted."""

    def __init__(
        self,
        client: Client,
        partition: TopicPartition,
        ledger: Ledger,
        *,
        idempotent: bool,
        pace_s: float,
    ) -> None:
        self.partition = partition
        self.idle = False
        """Whether everything that was sent is answered, and nothing more will be."""
        self._client = client
        self._ledger = ledger
        self._idempotent = idempotent
        self._pace_s = pace_s
        self._identity = (-1, -1)
        self._name = f"{client.name}.{partition.partition}"
        self._made = 0
        self._sequence = 0
        self.wanted = True

    async def run(self) -> None:
        """Send until it is not wanted any more and everything is answered."""
        if self._idempotent:
            await self._identify()
        while self.wanted:
            await self._send_all(self._new_batches())
            await asyncio.sleep(self._client.chance.uniform(0, self._pace_s))
        self.idle = True

    async def _identify(self) -> None:
        wanted = request(INIT_PRODUCER_ID, {"transaction_timeout": 60_000})
        while True:
            answer = await self._client.ask_any(INIT_PRODUCER_ID, 5, wanted)
            if answer.error_code is ErrorCode.none:
                self._identity = (int(answer.producer_id), int(answer.producer_epoch))
                return
            await self._client.rest()

    def _new_batches(self) -> list[_Batch]:
        chance = self._client.chance
        batches = []
        # The first alone: of a producer that it does not know, a leader takes any sequence, as
        # Kafka's does, and so would take a second batch whose first it had refused.
        several = self._idempotent and self._made > 0
        for _ in range(chance.randint(1, _IN_FLIGHT) if several else 1):
            count = chance.choice([1, 1, 3])
            values = [f"{self._name}/{self._made + n}".encode() for n in range(count)]
            batches.append(_Batch(values, self._sequence if self._idempotent else -1))
            self._made += count
            self._sequence += count
            self._ledger.sent(self.partition, values, idempotent=self._idempotent)
        return batches

    async def _send_all(self, batches: list[_Batch]) -> None:
        """Until each is acknowledged."""
        while batches:
            before = len(batches)
            batches = await self._try(batches)
            if len(batches) == before:
                await self._client.rest()

    async def _try(self, batches: list[_Batch]) -> list[_Batch]:
        """Send all of them, in order; those that were not acknowledged."""
        leader, _ = await self._client.leader_of(self.partition)
        try:
            link = await self._client.link(leader)
        except NoAnswerError:
            self._client.forget_leader(self.partition)
            return batches
        questions = [
            asyncio.ensure_future(link.produce(_VERSION, self._request(batch))) for batch in batches
        ]
        answers = await asyncio.gather(*questions, return_exceptions=True)
        left = []
        for batch, answer in zip(batches, answers, strict=True):
            if isinstance(answer, OSError | DecodeError):
                await self._client.hang_up(leader)
                self._client.forget_leader(self.partition)
                left.append(batch)
            elif isinstance(answer, BaseException) or answer is None:
                raise RuntimeError(f"producing ended in {answer!r}")
            else:
                result = answer.topics[0].partitions[0]
                if result.error:
                    self._ledger.refused(self.partition, ErrorCode(result.error))
                    self._client.forget_leader(self.partition)
                    left.append(batch)
                else:
                    self._ledger.acknowledged(self.partition, result.base_offset, batch.values)
        return left

    def _request(self, batch: _Batch) -> ProduceRequest:
        records: list[NewRecord] = [(_STAMP_MS, None, value, []) for value in batch.values]
        data = encode_batch(
            records,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=batch.sequence,
        )
        part = ProducePartition(self.partition.partition, memoryview(data))
        topic = ProduceTopic(self.partition.topic, None, [part])
        return ProduceRequest(None, -1, _TIMEOUT_MS, [topic])
