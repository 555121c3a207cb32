"""One batch into one partition: at once, or in its turn behind those that have to wait."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.api.context import Services
from barnabas.log.validation import RefusedRecordsError, with_records
from barnabas.log.verification import VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.partition import Partition
from barnabas.wire.produce import ProducePartitionResult
from barnabas.wire.records.batch import HEADER_BYTES, MAGIC, BatchHeader, parse_header

_TOLD_WITH_LOG_START: Final = frozenset(
    {
        ErrorCode.invalid_record,
        ErrorCode.invalid_timestamp,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
    }
)
"""Refusals of the log itself. An idempotent client learns from the log start that comes with them
whether the batches it is missing were deleted or lost."""


class Unacknowledged(NamedTuple):
    """Appended, and to be answered with `result` once the future is done."""

    result: ProducePartitionResult
    acknowledged: "asyncio.Future[None]"


Appended = ProducePartitionResult | Unacknowledged
Outcome = Appended | asyncio.Task[Appended]


def append_now(
    partition: Partition,
    index: int,
    records: memoryview,
    batch: BatchHeader,
    now_ms: int,
    guard: VerificationGuard | None = None,
    *,
    everywhere: bool = True,
) -> Appended:
    """Append a checked batch. Raises KafkaError.

    `everywhere`: it is acknowledged when every replica in sync has it (acks=all).
    """
    appended, acknowledged = partition.append(records, batch, now_ms, guard, everywhere=everywhere)
    result = ProducePartitionResult(
        index, 0, appended.first_offset, appended.append_time_ms, partition.log.start_offset
    )
    return result if acknowledged is None else Unacknowledged(result, acknowledged)


def defer(partition: Partition, append: Coroutine[Any, Any, Appended]) -> "asyncio.Task[Appended]":
    """Begin an append that has to leave the loop. Tasks begin in the order in which they are made,
    so batches go into the log in the order of their requests, whatever else these wait for."""
    partition.deferred += 1
    task = asyncio.get_running_loop().create_task(append)
    # Also when the task is cancelled before its first step, where no `finally` would help.
    task.add_done_callback(partial(_count_down, partition))
    return task


def _count_down(partition: Partition, _: "asyncio.Task[Appended]") -> None:
    partition.deferred -= 1


def append_checked(
    services: Services,
    partition: Partition,
    index: int,
    records: bytes,
    batch: BatchHeader,
    guard: VerificationGuard | None = None,
    *,
    everywhere: bool = True,
) -> Coroutine[Any, Any, Appended]:
    """Look into the records off the loop, then append; batches keep the order they came in, and go
    into the log in the epoch they came in, or not at all."""
    append = partial(append_now, partition, index, guard=guard, everywhere=everywhere)
    return _append_checked(
        services, partition, index, records, batch, partition.leader_epoch, append
    )


async def _append_checked(
    services: Services,
    partition: Partition,
    index: int,
    records: bytes,
    batch: BatchHeader,
    leader_epoch: int,
    append: Callable[[memoryview, BatchHeader, int], Appended],
) -> Appended:
    try:
        async with partition.order:
            now_ms = services.clock.wall_ms()
            config = partition.log.config
            stored = await services.work.run(lambda: with_records(records, batch, config, now_ms))
            if partition.leader_epoch != leader_epoch:
                raise KafkaError(ErrorCode.not_leader_or_follower)
            view = memoryview(bytearray(stored))
            return append(view, parse_header(view), now_ms)
    except KafkaError as error:
        return refused(index, error, partition, records)


def refused(
    index: int,
    error: KafkaError,
    partition: Partition | None = None,
    records: bytes | memoryview | None = None,
) -> ProducePartitionResult:
    """What a client is told; `partition` and `records` where the log has judged them."""
    log_start = -1
    if partition is not None and error.code in _TOLD_WITH_LOG_START and _is_one_batch(records):
        log_start = partition.log.start_offset
    return ProducePartitionResult(
        index,
        error.code.value,
        -1,
        log_start_offset=log_start,
        message=error.message or None,
        record_errors=error.refused if isinstance(error, RefusedRecordsError) else (),
    )


def _is_one_batch(records: bytes | memoryview | None) -> bool:
    """Whether the log has judged what the batch says, and not just that it is none."""
    if records is None or len(records) < HEADER_BYTES:
        return False
    header = parse_header(records)
    return header.magic == MAGIC and 0 <= len(records) - header.size < HEADER_BYTES
