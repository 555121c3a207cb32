"""Readers: one for each partition, from its beginning on, record by record.

A reader knows since which epoch its leader leads, and asks by that epoch (KIP-320): so it never
goes back to one that leads no more, and what it is told must never go back either. Some read at
followers as well (KIP-392): what they find there must be the same.
"""

import asyncio
from typing import Final

from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.asking import request
from barnabas.sim.cluster.client import Client, NoAnswerError
from barnabas.sim.cluster.ledger import Ledger
from barnabas.sim.cluster.truth import demand
from barnabas.wire.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchTopic
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch

LIST_OFFSETS: Final = 2
_VERSION: Final = 12
_WAIT_MS: Final = 1_000
_BYTES: Final = 4_096


class Reader:
    """Reads one partition from its start on."""

    isolation = 0

    def __init__(
        self, client: Client, partition: TopicPartition, ledger: Ledger, nearby: bool = False
    ) -> None:
        self.partition = partition
        self.offset = 0
        self._client = client
        self._ledger = ledger
        self._nearby = nearby
        self._shown = 0
        """The highest end of the partition that it was told."""

    async def run(self) -> None:
        """For ever."""
        while True:
            leader, epoch = await self._client.leader_of(self.partition)
            try:
                if self._client.chance.random() < 0.2:
                    ok = await self._look_at_end(leader, epoch)
                elif self._nearby and self._client.chance.random() < 0.5:
                    before = self.offset
                    ok = await self._fetch(self._client.other_than(leader), epoch)
                    self._ledger.read_nearby += self.offset - before
                else:
                    ok = await self._fetch(leader, epoch)
            except NoAnswerError:
                ok = False
            if not ok:
                self._client.forget_leader(self.partition)
                await self._client.rest()
            await asyncio.sleep(self._client.chance.uniform(0, 0.3))

    async def _fetch(self, broker: int, epoch: int) -> bool:
        link = await self._client.link(broker)
        part = FetchPartition(self.partition.partition, epoch, self.offset, -1, -1, _BYTES)
        topic = FetchTopic(self.partition.topic, None, [part])
        wanted = FetchRequest(-1, -1, _WAIT_MS, 1, _BYTES, self.isolation, 0, -1, [topic], [])
        try:
            response = await link.fetch(_VERSION, wanted)
        except (OSError, DecodeError) as error:
            await self._client.hang_up(broker)
            raise NoAnswerError(str(error)) from error
        (result,) = response.topics[0].partitions
        if result.error:
            self._refused(ErrorCode(result.error), broker, epoch)
            return False
        self._take(result)
        return True

    def _refused(self, code: ErrorCode, broker: int, epoch: int) -> None:
        self._ledger.errors[f"fetch {code.name}"] += 1
        demand(
            code is not ErrorCode.offset_out_of_range,
            "ConsistentRead",
            f"{self.partition.directory} of epoch {epoch} ends at broker {broker} before "
            f"{self.offset}, up to where it was read, and that is called its end",
        )

    def _take(self, result: FetchPartitionResult) -> None:
        records = memoryview(bytes(result.records or b""))
        for position, _ in walk(records):
            for record in decode_batch(records, position):
                if record.offset >= self.offset:
                    at = f"{self.partition.directory}: {record.offset} follows {self.offset}"
                    demand(record.offset == self.offset, "NoGaps", at)
                    self._ledger.has_read(self.partition, record.offset, record.value or b"")
                    self.offset = record.offset + 1

    async def _look_at_end(self, leader: int, epoch: int) -> bool:
        name, number = self.partition
        row = {"partition_index": number, "current_leader_epoch": epoch, "timestamp": -1}
        wanted = {
            "replica_id": -1,
            "isolation_level": self.isolation,
            "topics": [{"name": name, "partitions": [row]}],
        }
        answer = await self._client.ask(leader, LIST_OFFSETS, 6, request(LIST_OFFSETS, wanted))
        (told,) = answer.topics[0].partitions
        if told.error_code is not ErrorCode.none:
            self._ledger.errors[f"list {told.error_code.name}"] += 1
            return told.error_code is ErrorCode.offset_not_available
        demand(
            told.offset >= self._shown,
            "MonotonicHighWatermark",
            f"{self.partition.directory} ended at {self._shown}, and now ends at {told.offset} "
            f"(broker {leader}, epoch {epoch})",
        )
        self._shown = int(told.offset)
        return True


class CopyReader(Reader):
    """Reads only what transactions have committed: it must be a copy of another partition."""

    isolation = 1

    def __init__(
        self,
        client: Client,
        partition: TopicPartition,
        source: TopicPartition,
        ledger: Ledger,
        nearby: bool = False,
    ) -> None:
        super().__init__(client, partition, ledger, nearby)
        self.copied = 0
        self._source = source

    def _take(self, result: FetchPartitionResult) -> None:
        records = memoryview(bytes(result.records or b""))
        aborted = sorted((offset, producer) for producer, offset in result.aborted or ())
        ignored: set[int] = set()
        for position, header in walk(records):
            while aborted and aborted[0][0] <= header.last_offset:
                ignored.add(aborted.pop(0)[1])
            following = header.last_offset + 1
            if header.is_control:
                ignored.discard(header.producer_id)
            elif header.producer_id not in ignored and header.base_offset >= self.offset:
                for record in decode_batch(records, position):
                    self._check_copy(record.offset, record.value or b"")
            self.offset = max(self.offset, following)

    def _check_copy(self, offset: int, value: bytes) -> None:
        wanted = self._ledger.truth(self._source).values.get(self.copied)
        demand(
            value == wanted,
            "ExactlyOnce",
            f"{value!r} is at {offset} of {self.partition.directory}, where record {self.copied} "
            f"of {self._source.directory} belongs: {wanted!r}",
        )
        self.copied += 1
        self._ledger.records_read += 1
