"""An exactly-once copier: reads a partition, writes what it read into another, in transactions.

The offset it has read up to is part of each transaction. Whatever goes wrong, it takes its
transactional id again (which ends what was open, one way or the other), asks how far it had come,
and goes on from there. What readers of committed records see must be a copy, record by record.
"""

import asyncio
from typing import Any, Final

from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.asking import request
from barnabas.sim.cluster.client import Client, NoAnswerError
from barnabas.sim.cluster.groups import Offsets
from barnabas.sim.cluster.ledger import Ledger
from barnabas.sim.cluster.producers import INIT_PRODUCER_ID
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from barnabas.wire.records.record import NewRecord, encode_batch

ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
TXN_OFFSET_COMMIT: Final = 28
_TRANSACTION: Final = 1
_AT_ONCE: Final = 6
_STAMP_MS: Final = 1_700_000_000_000


class _StartAnewError(Exception):
    """Something went wrong in mid-transaction."""


class Copier:
    """Copies what is committed in `source` to `target`."""

    def __init__(
        self, client: Client, source: TopicPartition, target: TopicPartition, ledger: Ledger
    ) -> None:
        self.partition = target
        self.wanted = True
        self.idle = False
        self.copied = 0
        self.restarts = 0
        self._client = client
        self._source = source
        self._ledger = ledger
        self._id = client.name
        self._offsets = Offsets(client, client.name, ledger)
        self._bumps = client.chance.random() < 0.5
        """Whether it is a client of KIP-890, with an epoch for each transaction."""
        self._coordinator: int | None = None
        self._identity = (-1, -1)
        self._sequence = 0
        self.position = 0

    async def run(self) -> None:
        """Until it is not wanted any more and nothing is open."""
        while not self.idle:
            try:
                await self._begin()
                while self.wanted:
                    await self._copy_some()
                    await asyncio.sleep(self._client.chance.uniform(0, 0.5))
                self.idle = True
            except (_StartAnewError, NoAnswerError):
                self.restarts += 1
                await self._client.rest()

    async def _begin(self) -> None:
        body = {"transactional_id": self._id, "transaction_timeout": 60_000}
        answer = await self._ask(INIT_PRODUCER_ID, 5, body)
        self._check(answer.error_code)
        self._identity = (int(answer.producer_id), int(answer.producer_epoch))
        self._sequence = 0
        found = await self._offsets.committed(self._source)
        if found is None:
            raise _StartAnewError
        self.position = max(found, 0)

    async def _copy_some(self) -> None:
        truth = self._ledger.truth(self._source)
        values = [
            truth.values[at]
            for at in range(self.position, min(truth.end, self.position + _AT_ONCE))
        ]
        if not values:
            return
        if not self._bumps:
            await self._add()
        await self._produce(values)
        await self._commit_offsets(self.position + len(values))
        commits = self._client.chance.random() < 0.9
        await self._end(commits)
        if commits:
            self.position += len(values)
            self.copied += len(values)

    async def _add(self) -> None:
        topic = {"name": self.partition.topic, "partitions": [self.partition.partition]}
        transaction = self._producer() | {"topics": [topic], "verify_only": False}
        answer = await self._ask(ADD_PARTITIONS_TO_TXN, 3, {"transactions": [transaction]})
        for result in answer.results_by_transaction:
            for each in result.topic_results:
                self._check(each.results_by_partition[0].partition_error_code)
        answer = await self._ask(ADD_OFFSETS_TO_TXN, 3, self._producer() | {"group_id": self._id})
        self._check(answer.error_code)

    async def _produce(self, values: list[bytes]) -> None:
        records: list[NewRecord] = [(_STAMP_MS, None, value, []) for value in values]
        data = encode_batch(
            records,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += len(values)
        part = ProducePartition(self.partition.partition, memoryview(data))
        topic = ProduceTopic(self.partition.topic, None, [part])
        leader, _ = await self._client.leader_of(self.partition)
        try:
            link = await self._client.link(leader)
            version = 12 if self._bumps else 11
            answer = await link.produce(version, ProduceRequest(self._id, -1, 4_000, [topic]))
        except (OSError, DecodeError, NoAnswerError) as error:
            await self._client.hang_up(leader)
            self._client.forget_leader(self.partition)
            raise _StartAnewError from error
        code = ErrorCode(answer.topics[0].partitions[0].error) if answer else ErrorCode.none
        if code is not ErrorCode.none:
            self._client.forget_leader(self.partition)
        self._check(code)

    async def _commit_offsets(self, offset: int) -> None:
        row = {"partition_index": self._source.partition, "committed_offset": offset}
        topic = {"name": self._source.topic, "partitions": [row]}
        body = self._producer() | {"group_id": self._id, "generation_id": -1, "topics": [topic]}
        answer = await self._offsets.ask(TXN_OFFSET_COMMIT, 5 if self._bumps else 3, body)
        if answer is None:
            raise _StartAnewError
        code = answer.topics[0].partitions[0].error_code
        if code is not ErrorCode.none:
            self._offsets.look_elsewhere()
        self._check(code)

    async def _end(self, commits: bool) -> None:
        body = self._producer() | {"committed": commits}
        answer = await self._ask(END_TXN, 5 if self._bumps else 4, body)
        self._check(answer.error_code)
        if self._bumps:
            self._identity = (int(answer.producer_id), int(answer.producer_epoch))
            self._sequence = 0

    def _producer(self) -> dict[str, Any]:
        return {
            "transactional_id": self._id,
            "producer_id": self._identity[0],
            "producer_epoch": self._identity[1],
        }

    async def _ask(self, key: int, version: int, body: dict[str, Any]) -> Any:
        """Ask the coordinator of the transaction."""
        if self._coordinator is None:
            self._coordinator = await self._client.coordinator_of(self._id, _TRANSACTION)
        try:
            return await self._client.ask(self._coordinator, key, version, request(key, body))
        except NoAnswerError:
            self._coordinator = None
            raise

    def _check(self, code: ErrorCode) -> None:
        if code is not ErrorCode.none:
            self._ledger.errors[f"copier {code.name}"] += 1
            self._coordinator = None
            raise _StartAnewError
