"""Ends of transactions that a replica holds and does not know to be committed.

A log that was just opened knows which transactions are open at its end. Where other replicas have
a say, those count as open, too, whose end lies at or above the high watermark: it may yet be lost
with the leader that has it, and what readers of committed records were shown must not go back.
"""

from barnabas.log.log import PartitionLog
from barnabas.log.reading import batches
from barnabas.log.segment import NOT_IN_MEMORY, Segment
from barnabas.log.snapshots import restored_producers


def recall_undecided(log: PartitionLog, committed: int, now_ms: int) -> None:
    """Let what ended at or above `committed` be undecided until more is known to be committed.

    Reads only what lies above, unless there is such an end: then also what comes before it, from
    the last snapshot on. Run it off the loop.
    """
    if not any(_has_control(segment, committed, end) for segment, end in log.spans()):
        return
    states = restored_producers(
        log.files, log.directory, log.spans(), log.end_offset, now_ms, committed=committed
    )
    log.producers.transactions.keep_ended(states.transactions, log.end_offset)


def _has_control(segment: Segment, offset: int, end: int) -> bool:
    if end <= offset:
        return False
    position = segment.position_in_memory(offset)
    if position == NOT_IN_MEMORY:
        position = segment.position_in_file(offset)
    return any(
        header.is_control and header.last_offset >= offset
        for _, header in batches(segment, position, segment.size)
    )
