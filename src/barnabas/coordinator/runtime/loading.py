"""Reading a shard's log back: only the last record of each key counts.

A log that is mostly made of records nobody needs any more is rewritten on that occasion: what
counts is appended once more, and the log begins there. Whatever moment this is interrupted at,
the log holds everything at least once, in an order that gives the same state.
"""

import asyncio
from typing import Final

from barnabas.coordinator.runtime.batches import pack, unpack
from barnabas.coordinator.runtime.log import ShardLog
from barnabas.model.errors import ErrorCode, KafkaError

_REWRITE_BYTES_MIN: Final = 1024 * 1024
"""A smaller log is read in milliseconds: rewriting it would gain nothing."""

_REWRITE_FACTOR: Final = 4
"""How many times larger than what counts in it a log may be."""

Live = dict[bytes, bytes]


async def live_records(log: ShardLog) -> Live:
    """The last value of each key, in the order they were written; removed keys are left out."""
    live: Live = {}
    offset = log.start_offset
    while offset < log.end_offset:
        data = await log.read(offset)
        before = offset
        for following, pairs in unpack(data):
            offset = following
            for key, value in pairs:
                # Away first: the order of the dict is the order of the last writes.
                live.pop(key, None)
                if value is not None:
                    live[key] = value
        if offset == before:
            # A leader may not count on what is not committed yet.
            raise KafkaError(ErrorCode.coordinator_load_in_progress, "its end is not committed")
        await asyncio.sleep(0)
    return live


async def rewrite_if_wasteful(log: ShardLog, live: Live, now_ms: int) -> bool:
    """Shrink the log to what counts, if that is worth it. Whether it was."""
    needed = sum(len(key) + len(value) for key, value in live.items())
    if log.size < max(_REWRITE_BYTES_MIN, needed * _REWRITE_FACTOR):
        return False
    log.begin_segment(now_ms)
    start = log.end_offset
    for batch in pack(live.items(), now_ms):
        committed = log.append(batch, now_ms)
        if committed is not None:
            await committed
        await asyncio.sleep(0)
    await log.forget_below(start)
    return True
