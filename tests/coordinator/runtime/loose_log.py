"""A log in memory whose commits and failures a test decides on."""

import asyncio

from barnabas.log.verification import VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.wire.records.batch import parse_header, stamp, walk
from barnabas.wire.records.control import EndTransactionMarker, marker_batch


class LooseLog:
    """Commits at once, unless it is told to `hold`. Old epochs of producers are fenced."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.start_offset = 0
        self.end_offset = 0
        self.leader_epoch = 0
        self.committed = 0
        self.hold = False
        self.refuses = False
        self.refuses_from: int | None = None
        self.epochs: dict[int, int] = {}
        self.guards: list[VerificationGuard | None] = []
        self.unreadable = 0
        self.segments: list[int] = []
        self.held: list[asyncio.Future[None]] = []

    @property
    def size(self) -> int:
        return sum(len(batch) for _, batch in self.batches)

    def append(
        self, batch: bytes, now_ms: int, guard: VerificationGuard | None = None
    ) -> "asyncio.Future[None] | None":
        if self.refuses or self.end_offset == self.refuses_from:
            raise KafkaError(ErrorCode.kafka_storage_error, "No space left on device.")
        memory = bytearray(batch)
        stamp(memory, 0, self.end_offset, 0)
        header = parse_header(memory)
        if header.producer_epoch < self.epochs.get(header.producer_id, -1):
            raise KafkaError(ErrorCode.invalid_producer_epoch)
        self.epochs[header.producer_id] = header.producer_epoch
        self.guards.append(guard)
        self.batches.append((header.last_offset, bytes(memory)))
        self.end_offset = header.last_offset + 1
        if not self.hold:
            self.committed = self.end_offset
            return None
        self.held.append(asyncio.get_running_loop().create_future())
        return self.held[-1]

    def append_marker(self, marker: Marker, now_ms: int) -> "asyncio.Future[None] | None":
        ending = EndTransactionMarker(marker.committed, marker.coordinator_epoch)
        batch = marker_batch(
            ending,
            timestamp=now_ms,
            producer_id=marker.producer_id,
            producer_epoch=marker.epoch,
        )
        return self.append(batch, now_ms)

    def release(self) -> None:
        """Everything is committed."""
        self.committed = self.end_offset
        for future in self.held:
            future.set_result(None)
        self.held = []

    def lose(self) -> None:
        """What is not committed will never be."""
        self.batches = [each for each in self.batches if each[0] < self.committed]
        self.end_offset = self.committed
        for future in self.held:
            future.set_exception(KafkaError(ErrorCode.not_leader_or_follower))
        self.held = []

    async def read(self, offset: int) -> memoryview:
        if self.unreadable:
            self.unreadable -= 1
            raise KafkaError(ErrorCode.corrupt_message, "damaged")
        for last, batch in self.batches:
            if offset <= last < self.committed:
                return memoryview(batch)
        if self.committed < self.end_offset:
            raise KafkaError(ErrorCode.coordinator_load_in_progress, "its end is not committed")
        return memoryview(b"")

    def begin_segment(self, now_ms: int) -> None:
        self.segments.append(self.end_offset)

    async def forget_below(self, offset: int) -> None:
        self.start_offset = offset
        self.batches = [each for each in self.batches if each[0] >= offset]

    def records(self) -> int:
        return sum(header.count for _, batch in self.batches for _, header in walk(batch))
