"""What stays of a batch: all of it, some of its records, only its header, or nothing.

Offsets never change, so a batch keeps its first and last offset whatever goes from it. What loses
nothing is copied byte for byte.
"""

from typing import Final

from barnabas.log.cleaner.plan import CleanPlan
from barnabas.log.cleaner.transactions import CleanedTransactions
from barnabas.model.limits import DECOMPRESSED_BYTES_MAX
from barnabas.ports.files import Buffer
from barnabas.wire.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    assemble,
)
from barnabas.wire.records.codec import KeyOffsets, rebase_records
from barnabas.wire.records.compression import NONE, compress, decompress

_LONG_MAX: Final = 2**63 - 1
_EMPTY_KEEPS: Final = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL


def records_of(header: BatchHeader, batch: memoryview) -> Buffer:
    """The records of a sound batch, decompressed; DecodeError when that can not be done."""
    data = batch[HEADER_BYTES:]
    # A batch that was emptied may keep its codec, but there is nothing to expand.
    if header.codec == NONE or not data:
        return data
    return decompress(header.codec, data, DECOMPRESSED_BYTES_MAX)


class BatchFilter:
    """Decides batch by batch, in the order of the log."""

    def __init__(
        self, plan: CleanPlan, keys: KeyOffsets, latest: int, transactions: CleanedTransactions
    ) -> None:
        self._plan = plan
        self._keys = keys
        self._latest = latest
        """Up to here the keys are known; what lies behind stays as it is."""
        self._transactions = transactions
        self._horizon = min(plan.now_ms + plan.delete_retention_ms, _LONG_MAX)
        self.records_kept = 0

    def kept(self, header: BatchHeader, batch: memoryview, *, is_last: bool) -> Buffer | None:
        """The bytes that stay, or None. `is_last` in its segment: at least its header stays.

        So every segment ends where the next begins, and nobody takes a gap for a lost tail.
        """
        has_horizon = bool(header.attributes & DELETE_HORIZON)
        horizon_passed = has_horizon and header.base_timestamp <= self._plan.now_ms
        if header.is_control:
            is_done = self._transactions.is_done_with(header, batch)
            if is_done and (horizon_passed or header.count == 0):
                return self._emptied(header, batch, is_last)
            return self._with_control(header, batch, marks=is_done and not has_horizon)
        if self._transactions.is_aborted(header) or header.count == 0:
            return self._emptied(header, batch, is_last)
        records = records_of(header, batch)
        count, body, tombstones, newest = self._keys.keep(
            records,
            header.count,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            self._latest,
            not horizon_passed,
        )
        if count == 0:
            return self._emptied(header, batch, is_last)
        self.records_kept += count
        marks = tombstones and not has_horizon
        if body is None and not marks:
            return batch
        if not header.attributes & LOG_APPEND_TIME:
            header = header._replace(max_timestamp=newest)
        return self._packed(header, count, records if body is None else body, marks=marks)

    def _with_control(self, header: BatchHeader, batch: memoryview, *, marks: bool) -> Buffer:
        self.records_kept += header.count
        if not marks:
            return batch
        return self._packed(header, header.count, records_of(header, batch), marks=True)

    def _emptied(self, header: BatchHeader, batch: memoryview, is_last: bool) -> Buffer | None:
        """Only the header, where somebody needs what it says of its producer or of offsets."""
        if self._is_last_of_producer(header):
            kept = header._replace(attributes=header.attributes & _EMPTY_KEEPS)
        elif is_last:
            # Of its producer and transaction nothing is needed: it must not keep markers alive.
            kept = header._replace(
                attributes=header.attributes & LOG_APPEND_TIME,
                producer_id=NO_PRODUCER,
                producer_epoch=-1,
                base_sequence=-1,
            )
        else:
            return None
        empty = assemble(kept._replace(base_timestamp=NO_TIMESTAMP, count=0), b"")
        return batch if batch == empty else empty

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._plan.producers.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        if last.data_offset >= 0:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _packed(self, header: BatchHeader, count: int, body: Buffer, *, marks: bool) -> Buffer:
        """The batch anew. `marks`: from now on its header tells until when tombstones stay."""
        if marks:
            shift = header.base_timestamp - self._horizon
            body = rebase_records(body, count, _wrapped(shift))
            attributes = header.attributes | DELETE_HORIZON
            header = header._replace(attributes=attributes, base_timestamp=self._horizon)
        return assemble(header._replace(count=count), compress(header.codec, body))


def _wrapped(number: int) -> int:
    """Into 64 bits, as times are added up when they are read."""
    return (number + 2**63) % 2**64 - 2**63
