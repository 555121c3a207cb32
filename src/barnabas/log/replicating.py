"""A follower's side of a log: batches come from the leader, with offsets and epochs in them.

They are stored byte for byte, so that the logs of all replicas are the same, and what they say of
producers, transactions and epochs is remembered as if they had been written here.
"""

from barnabas.log.log import OFFSET_MAX, PartitionLog
from barnabas.log.segment import RELATIVE_OFFSET_MAX
from barnabas.log.txn_index import AbortedTransaction
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.wire.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER,
    BatchHeader,
    parse_header,
    problem_of,
)
from barnabas.wire.records.control import EndTransactionMarker, decode_marker
from barnabas.wire.records.record import decode_batch


def append_replicated(log: PartitionLog, data: memoryview, leader_epoch: int, now_ms: int) -> int:
    """Append the whole batches in `data`, sent by the leader of `leader_epoch`; how many bytes
    that were.

    The answer to a fetch may end within a batch: that comes again with the next. CORRUPT_MESSAGE
    for what is damaged or does not follow what is here; nothing from there on is written.
    """
    log.require_healthy()
    position = 0
    while len(data) - position >= HEADER_BYTES:
        header = parse_header(data, position)
        end = position + header.size
        if header.size >= HEADER_BYTES and end > len(data):
            break
        _check(log, data, position, header, leader_epoch)
        _append(log, data[position:end], header, now_ms)
        position = end
    if position == 0 and len(data):
        # A leader sends one whole batch at least: to ask for it again would bring the same.
        _refuse(log, "it is cut short")
    return position


def first_batch_around(data: memoryview, offset: int) -> BatchHeader | None:
    """The first batch, if it began before `offset` and holds that: its records have been deleted up
    to there."""
    header = parse_header(data) if len(data) >= HEADER_BYTES else None
    if header is None or problem_of(data, 0, header) is not None:
        return None
    return header if header.base_offset < offset <= header.last_offset else None


def _check(
    log: PartitionLog, data: memoryview, position: int, header: BatchHeader, leader_epoch: int
) -> None:
    problem = problem_of(data, position, header)
    if problem is None and not log.end_offset <= header.base_offset <= header.last_offset:
        problem = f"it begins at {header.base_offset}"
    if problem is None and header.last_offset >= OFFSET_MAX:
        problem = f"it ends at {header.last_offset}"
    if problem is None and not max(log.epochs.latest, 0) <= header.leader_epoch <= leader_epoch:
        problem = (
            f"it is of epoch {header.leader_epoch}, after epoch {log.epochs.latest} and from the "
            f"leader of epoch {leader_epoch}"
        )
    if problem is not None:
        _refuse(log, problem)


def _refuse(log: PartitionLog, problem: str) -> None:
    raise KafkaError(
        ErrorCode.corrupt_message,
        f"What the leader sent of {log.partition.directory} at offset {log.end_offset} can not "
        f"be stored: {problem}.",
    )


def _append(log: PartitionLog, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
    first = header.base_offset
    _make_room(log, header, now_ms)
    if header.producer_id <= NO_PRODUCER:
        log.write(batch, header, first, header.leader_epoch, now_ms)
        return
    # Producers are heard of when they write, as at the leader, whatever time their records tell:
    # who writes old ones must not be forgotten sooner here than there.
    if not header.is_control:
        log.write(batch, header, first, header.leader_epoch, now_ms)
        log.producers.record(header, first, now_ms)
        return
    marker = _marker_in(batch, header)
    if marker is None:
        log.write(batch, header, first, header.leader_epoch, now_ms)
        return
    _append_marker(log, batch, header, marker, now_ms)
    log.producers.record_marker(header, marker.coordinator_epoch, first, now_ms)


def _make_room(log: PartitionLog, header: BatchHeader, now_ms: int) -> None:
    """A segment for the batch. Compaction leaves gaps: one can be wider than a segment."""
    log.roll_if_due(header, header.base_offset, now_ms)
    if header.last_offset - log.segments[-1].base_offset > RELATIVE_OFFSET_MAX:
        log.begin_segment_at(header.base_offset, now_ms)


def _append_marker(
    log: PartitionLog,
    batch: memoryview,
    header: BatchHeader,
    marker: EndTransactionMarker,
    now_ms: int,
) -> None:
    offset = header.base_offset
    ended = log.producers.ending(header.producer_id, offset, aborted=not marker.committed)
    if ended is None or not ended.aborted:
        log.write(batch, header, offset, header.leader_epoch, now_ms)
        return
    stable = log.producers.transactions.stable_after(ended)
    aborted = AbortedTransaction.of(ended, stable)
    log.write_aborting(aborted, batch, header, header.leader_epoch, now_ms)


def _marker_in(batch: memoryview, header: BatchHeader) -> EndTransactionMarker | None:
    """The end of a transaction; None for a control batch that compaction has emptied, and for one
    of a kind that is not known here."""
    if header.count == 0:
        return None
    try:
        return decode_marker(decode_batch(batch)[0])
    except DecodeError:
        return None
