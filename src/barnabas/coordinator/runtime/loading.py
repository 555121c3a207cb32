"""Reading a shard's log back: only the last record of each key counts.

A record of a transaction counts once its commit marker has been read, but in its own place: what
was written behind it meanwhile stays. Compaction leaves gaps, and markers of which there is
nothing left to end.

A log that is mostly made of records nobody needs any more is rewritten on that occasion: what
counts is appended once more, and the log begins there. Whatever moment this is interrupted at,
the log holds everything at least once, in an order that gives the same state. While there is an
open transaction the log stays as it is: its records would lose their producer.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from barnabas.coordinator.runtime.batches import Batch, pack, unpack
from barnabas.coordinator.runtime.codec import Codec
from barnabas.coordinator.runtime.log import ShardLog
from barnabas.coordinator.runtime.pending import Pending
from barnabas.coordinator.runtime.shard import Shard, transactional
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError

logger = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S", bound=Shard[Any])

_REWRITE_BYTES_MIN: Final = 1024 * 1024
"""A smaller log is read in milliseconds: rewriting it would gain nothing."""

_REWRITE_FACTOR: Final = 4
"""How many times larger than what counts in it a log may be."""

_APPLIED_AT_ONCE: Final = 1000
"""Records that are applied before others get their turn on the loop."""


class Replay:
    """What counts of a log, as its batches go by."""

    def __init__(self) -> None:
        self.live: dict[bytes, bytes] = {}
        """The last value of each key, in the order they were written; without removed keys."""
        self.pending: Pending[bytes, bytes] = Pending()
        self.open: set[int] = set()
        """Producers of transactions without an end, even if all they wrote was removed since."""

    def take(self, batch: Batch) -> None:
        """The next batch of the log."""
        producer_id = batch.producer_id
        if batch.committed is not None and producer_id is not None:
            self.open.discard(producer_id)
            for key, counting in self.pending.end(producer_id, committed=batch.committed):
                self._keep(key, counting)
        if batch.pairs and producer_id is not None:
            self.open.add(producer_id)
        for key, value in batch.pairs:
            if value is None:
                self.live.pop(key, None)
                self.pending.remove(key)
            elif producer_id is None:
                self._keep(key, value)
                self.pending.overtake(key)
            else:
                self.pending.write(producer_id, key, value)

    def _keep(self, key: bytes, value: bytes) -> None:
        # Away first: the order of the dict is the order of the last writes.
        self.live.pop(key, None)
        self.live[key] = value

    def records(self) -> Iterator[tuple[int | None, bytes, bytes]]:
        """Producer id (None: it counts), key and value, in an order that gives the same state:
        what is pending stands before or behind what counts, as in the log."""
        yield from self.pending.writes(overtaken=True)
        for key, value in self.live.items():
            yield None, key, value
        yield from self.pending.writes(overtaken=False)


async def read_back(name: str, log: ShardLog, codec: Codec[R], shard: S, now_ms: int) -> None:
    """Have `shard` take over everything that counts in its log, and what may count one day."""
    replay = await replayed(log)
    try:
        await rewrite_if_wasteful(log, replay, now_ms)
    except (KafkaError, OSError) as error:
        # A full disk, for one. What was read counts all the same.
        logger.warning("%s can not be rewritten and stays as it is: %s", name, error)
    for count, (producer_id, key, value) in enumerate(replay.records(), 1):
        try:
            record = codec.decode(key, value)
        except DecodeError as error:
            logger.error("%s holds a record that can not be read: %s", name, error)
            continue
        if record is None:
            continue
        if producer_id is None:
            shard.apply(record)
        else:
            transactional(shard).apply_pending(record, producer_id)
        if count % _APPLIED_AT_ONCE == 0:
            await asyncio.sleep(0)


async def replayed(log: ShardLog) -> Replay:
    """The whole log, read once."""
    replay = Replay()
    offset = log.start_offset
    while offset < log.end_offset:
        data = await log.read(offset)
        if not data:
            break  # Compaction has left nothing up to the end.
        before = offset
        for batch in unpack(data):
            offset = batch.next_offset
            replay.take(batch)
        if offset == before:
            raise KafkaError(ErrorCode.corrupt_message, f"no whole batch at offset {offset}")
        await asyncio.sleep(0)
    return replay


async def rewrite_if_wasteful(log: ShardLog, replay: Replay, now_ms: int) -> bool:
    """Shrink the log to what counts, if that is worth it. Whether it was."""
    needed = sum(len(key) + len(value) for key, value in replay.live.items())
    if replay.open or log.size < max(_REWRITE_BYTES_MIN, needed * _REWRITE_FACTOR):
        return False
    log.begin_segment(now_ms)
    start = log.end_offset
    for batch in pack(replay.live.items(), now_ms):
        committed = log.append(batch, now_ms)
        if committed is not None:
            await committed
        await asyncio.sleep(0)
    await log.forget_below(start)
    return True
