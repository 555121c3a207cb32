"""What a shard's partition must be able to do. (The broker hands in one that it leads.)"""

import asyncio
from typing import Protocol

from barnabas.log.verification import VerificationGuard
from barnabas.model.transactions import Marker


class ShardLog(Protocol):
    """One partition of an internal topic, as its leader has it."""

    @property
    def start_offset(self) -> int:
        """Where the log begins."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def size(self) -> int:
        """Bytes in the log."""
        ...

    @property
    def leader_epoch(self) -> int:
        """How many times the partition has changed hands; higher than that of every former
        leader, so whoever writes for this shard elsewhere can be told from its predecessors."""
        ...

    def append(
        self, batch: bytes, now_ms: int, guard: VerificationGuard | None = None
    ) -> "asyncio.Future[None] | None":
        """Append at once. The future, if any, is done when the batch is committed.

        `guard` is what shows that a transactional batch was verified with the coordinator of
        its transaction. Raises KafkaError or OSError when nothing was appended; the future fails
        when what was appended will never be committed.
        """
        ...

    def append_marker(self, marker: Marker, now_ms: int) -> "asyncio.Future[None] | None":
        """Append the end of a producer's transaction, as `append` does."""
        ...

    async def read(self, offset: int) -> memoryview:
        """Some whole batches, of which the first is the first that ends at or behind `offset`.

        Empty when there is none. Waits until what there is is committed: a leader may not count
        on it before.
        """
        ...

    def begin_segment(self, now_ms: int) -> None:
        """What is appended from now on goes into files of its own."""
        ...

    async def forget_below(self, offset: int) -> None:
        """Make the rest of the log durable, then let it begin at `offset`."""
        ...
