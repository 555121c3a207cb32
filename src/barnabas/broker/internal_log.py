"""A partition of an internal topic, as the coordinator on it sees it."""

import asyncio
from typing import Final

from barnabas.log.verification import VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.ports.work import Work
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas
from barnabas.wire.records.batch import parse_header

_READ_BYTES: Final = 1024 * 1024

_NO_SEQUENCE: Final = -1
"""What the log is told of a coordinator's batches. Kafka numbers them all 0, and so do the bytes
say; but they follow from each other no more than they repeat each other."""


class InternalLog:
    """Appends, reads and shortens one partition that this broker leads."""

    def __init__(self, partition: Partition, replicas: Replicas, work: Work) -> None:
        self._partition = partition
        self._replicas = replicas
        self._work = work

    @property
    def start_offset(self) -> int:
        """Where the log begins."""
        return self._partition.log.start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._partition.log.end_offset

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return self._partition.log.size

    @property
    def leader_epoch(self) -> int:
        """Since when this broker leads the partition."""
        return self._partition.leader_epoch

    def append(
        self, batch: bytes, now_ms: int, guard: VerificationGuard | None = None
    ) -> "asyncio.Future[None] | None":
        """Append at once; the future, if any, is done when the batch is committed."""
        view = memoryview(bytearray(batch))
        header = parse_header(view)._replace(base_sequence=_NO_SEQUENCE)
        _, committed = self._partition.append(view, header, now_ms, guard)
        return committed

    def append_marker(self, marker: Marker, now_ms: int) -> "asyncio.Future[None] | None":
        """Append the end of a producer's transaction."""
        _, committed = self._partition.append_marker(marker, now_ms)
        return committed

    async def read(self, offset: int) -> memoryview:
        """Some whole batches, from the first on that ends at or behind `offset`."""
        partition = self._partition
        following: int | None = offset
        while following is not None:
            up_to = partition.high_watermark
            found = partition.read(following, _READ_BYTES, up_to, at_least_one=True)
            if isinstance(found, asyncio.Future):
                found = await found
            if found is not None and found.data:
                return found.data
            following = partition.log.next_readable(following)
            if following is None:
                committed = partition.committed(partition.log.end_offset)
                if committed is not None:
                    # A new leader: how much of what it has is committed, its followers will tell.
                    await committed
                    following = offset
        return memoryview(b"")

    def begin_segment(self, now_ms: int) -> None:
        """What is appended from now on goes into files of its own."""
        self._partition.log.require_healthy()
        self._partition.log.roll(now_ms)

    async def forget_below(self, offset: int) -> None:
        """Make the rest durable, then let the log begin at `offset`."""
        durable = self._partition.durable()
        if durable is not None:
            await durable
        log = self._partition.log
        if log.failure is not None:
            raise KafkaError(ErrorCode.kafka_storage_error, log.failure)
        log.advance_start(offset)
        await self._work.run(self._replicas.store.checkpoint_job())
