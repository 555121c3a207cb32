"""Transactions written straight into a log, and what a reader of committed records sees of them."""

from tests.log.conftest import NOW_MS, batch

from barnabas.log.log import Appended, PartitionLog
from barnabas.log.txn_index import AbortedTransaction
from barnabas.log.verification import VERIFICATION_OFF, VerificationGuard
from barnabas.model.transactions import Marker
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch

_READ_BYTES = 300
"""Two or three batches at a time."""


def write(
    log: PartitionLog,
    producer: tuple[int, int, int],
    *values: bytes,
    transactional: bool = True,
    guard: VerificationGuard | None = VERIFICATION_OFF,
    now_ms: int = NOW_MS,
) -> Appended:
    """A batch of a producer (id, epoch, first sequence), as a client's."""
    records = batch(*(values or (b"v",)), producer=producer, transactional=transactional)
    return log.append(records, log.check(records, now_ms), 0, now_ms, guard)


def end(
    log: PartitionLog,
    producer_id: int,
    epoch: int,
    *,
    committed: bool,
    coordinator_epoch: int = 0,
    version: int = 0,
    now_ms: int = NOW_MS,
) -> int:
    """The marker of a producer's transaction; its offset."""
    marker = Marker(
        producer_id=producer_id,
        epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        committed=committed,
        transaction_version=version,
    )
    return log.append_marker(marker, 0, now_ms).first_offset


def stable(log: PartitionLog, high_watermark: int | None = None) -> int:
    """The last stable offset, with everything committed unless told otherwise."""
    watermark = log.end_offset if high_watermark is None else high_watermark
    unstable = log.producers.transactions.first_unstable(watermark)
    return watermark if unstable is None else min(watermark, max(unstable, log.start_offset))


def aborted(log: PartitionLog, first: int = 0, up_to: int | None = None) -> list[tuple[int, int]]:
    """Producer and first offset of what was aborted in a range."""
    found = aborted_entries(log, first, log.end_offset if up_to is None else up_to)
    return [(each.producer_id, each.first_offset) for each in found]


def aborted_entries(log: PartitionLog, first: int, up_to: int) -> list[AbortedTransaction]:
    search = log.aborted_search(first, up_to)
    if search is None:
        return []
    found = search.read()
    assert found == search.read_cached()
    return found


def read_committed(log: PartitionLog, up_to: int | None = None) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record that a reader of committed records keeps.

    It does as clients do: a transactional batch is left out while its producer has an aborted
    transaction under way, which begins at the offset that was told and ends with the marker.
    """
    kept: list[tuple[int, bytes | None]] = []
    offset, up_to = log.start_offset, stable(log) if up_to is None else up_to
    while offset < up_to:
        plan = log.plan_read(offset, _READ_BYTES, up_to, at_least_one=True)
        assert plan is not None
        result = plan.read()
        if not result.data:
            following = log.next_readable(offset)
            assert following is not None, f"a reader is stuck at {offset}"
            offset = following
            continue
        kept += _kept(result.data, aborted(log, offset, result.next_offset), offset)
        offset = result.next_offset
    return kept


def _kept(
    data: memoryview, told: list[tuple[int, int]], offset: int
) -> list[tuple[int, bytes | None]]:
    waiting = sorted(told, key=lambda each: each[1])
    under_way: set[int] = set()
    kept: list[tuple[int, bytes | None]] = []
    for position, header in walk(data):
        while waiting and waiting[0][1] <= header.last_offset:
            under_way.add(waiting.pop(0)[0])
        if header.is_control:
            under_way.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in under_way):
            records = decode_batch(data, position)
            kept += [(each.offset, each.value) for each in records if each.offset >= offset]
    return kept
