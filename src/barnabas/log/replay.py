"""What the batches of a log say about producers, when they are read again."""

import logging
from collections.abc import Iterator

from barnabas.log import names
from barnabas.log.producers import ProducerStates
from barnabas.log.reading import batches
from barnabas.log.segment import Segment
from barnabas.log.txn_index import AbortedTransaction
from barnabas.model.errors import DecodeError
from barnabas.wire.records.batch import NO_PRODUCER, BatchHeader, problem_of
from barnabas.wire.records.control import EndTransactionMarker, decode_marker
from barnabas.wire.records.record import decode_batch

logger = logging.getLogger(__name__)


def replay(
    states: ProducerStates,
    segment: Segment,
    position: int,
    header: BatchHeader,
    now_ms: int,
    *,
    committed: int | None = None,
) -> AbortedTransaction | None:
    """Remember a batch that was found in the log, if it is a producer's; what it aborted, if any.
    `committed`: the high watermark; None if all that is found is committed.

    Its timestamp is the best guess at when the producer was heard of; without one it is now, since
    the producer would be forgotten at once otherwise.
    """
    if header.producer_id <= NO_PRODUCER:
        return None
    seen_ms = header.max_timestamp if header.max_timestamp >= 0 else now_ms
    if not header.is_control:
        states.record(header, header.base_offset, seen_ms)
        return None
    marker = _marker_in(segment, position, header)
    if marker is None:
        return None
    offset = header.base_offset
    ended = states.ending(header.producer_id, offset, aborted=not marker.committed)
    aborted = None
    if ended is not None and ended.aborted:
        aborted = AbortedTransaction.of(ended, states.transactions.stable_after(ended))
    states.record_marker(header, marker.coordinator_epoch, offset, seen_ms)
    states.transactions.settle(offset + 1 if committed is None else committed)
    return aborted


def _marker_in(segment: Segment, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    """The marker in a control batch. None: compaction has emptied it, or it can not be trusted.

    Then a transaction that it ended stays open, and nothing of it is shown to readers of
    committed records: the safe side.
    """
    if header.count == 0:
        return None
    try:
        return read_marker(segment, position, header)
    except DecodeError as error:
        logger.error(
            "%s: the control batch at offset %d ends no transaction (%s)",
            segment.path(names.LOG), header.base_offset, error,
        )  # fmt: skip
        return None


def read_marker(segment: Segment, position: int, header: BatchHeader) -> EndTransactionMarker:
    """The marker in a control batch; DecodeError when there is no sound one."""
    data = segment.file.pread(header.size, position)
    problem = problem_of(data, 0, header)
    if problem is not None:
        raise DecodeError(problem)
    return decode_marker(decode_batch(data)[0])


def aborted_in(
    states: ProducerStates, segment: Segment, now_ms: int
) -> Iterator[AbortedTransaction]:
    """What was aborted in a segment; `states` are those of its base offset, and move on."""
    for position, header in batches(segment, 0, segment.size):
        aborted = replay(states, segment, position, header, now_ms)
        if aborted is not None:
            yield aborted
