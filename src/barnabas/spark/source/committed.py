"""Which batches of one Fetch answer were aborted, for readers of committed records.

A broker answers up to its last stable offset, so no transaction in the answer is still open; with
the records it names those of them that were aborted, each by its producer and its first offset.
"""

from collections.abc import Iterable

from barnabas.wire.records.batch import BatchHeader, Buffer
from barnabas.wire.records.control import ControlType, control_type
from barnabas.wire.records.record import decode_batch


class AbortedTransactions:
    """The aborted transactions of one answer of one partition; batches are shown in their order."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = sorted(
            ((first_offset, producer_id) for producer_id, first_offset in aborted), reverse=True
        )
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Whether this batch of records belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        return header.is_transactional and header.producer_id in self._open

    def end_at(self, data: Buffer, position: int, header: BatchHeader) -> None:
        """Look at a control batch: an ABORT marker ends its producer's aborted transaction.

        The same producer's next batches belong to its next transaction. DecodeError when the
        batch can not be read.
        """
        self._begin_up_to(header.last_offset)
        if header.producer_id not in self._open:
            return
        records = decode_batch(data, position)
        if records and control_type(records[0]) is ControlType.ABORT:
            self._open.discard(header.producer_id)

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[-1][0] <= offset:
            self._open.add(self._ahead.pop()[1])
