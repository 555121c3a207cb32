"""What cleaning must know of transactions: whose data goes, and which markers are still needed.

Batches are shown in the order of the log. Data of aborted transactions goes. A marker stays until
no batch of its transaction was seen any more; and the entry of an aborted one stays in the
transaction index for as long as a batch of it was seen, so that whoever has read the old data
finds the new index true, and the other way round.
"""

from collections.abc import Iterable

from barnabas.log.txn_index import AbortedTransaction
from barnabas.model.errors import DecodeError
from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.control import ControlType, control_type
from barnabas.wire.records.record import decode_batch


class CleanedTransactions:
    """Follows the transactions of a log from batch to batch."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborting: dict[int, AbortedTransaction] = {}
        self._seen_aborting: set[int] = set()
        self._committing: set[int] = set()
        self._needed: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch with data belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborting.get(header.producer_id)
        if aborted is not None and header.base_offset < aborted.last_offset:
            self._seen_aborting.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def is_done_with(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether a control batch has nothing left to decide."""
        self._advance(header.last_offset)
        if header.count == 0:
            return True
        producer_id = header.producer_id
        match _kind(batch):
            case ControlType.ABORT:
                aborted = self._aborting.pop(producer_id, None)
                if aborted is None or producer_id not in self._seen_aborting:
                    return True
                self._seen_aborting.discard(producer_id)
                self._needed.append(aborted)
                return False
            case ControlType.COMMIT:
                seen = producer_id in self._committing
                self._committing.discard(producer_id)
                return not seen
            case _:
                return False

    def take_needed(self) -> list[AbortedTransaction]:
        """The entries for the index of the segment that was just written."""
        needed, self._needed = self._needed, []
        return needed

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            aborted = self._coming.pop()
            before = self._aborting.get(aborted.producer_id)
            if before is None or before.last_offset < aborted.first_offset:
                # The one before ended where nobody has looked.
                self._aborting[aborted.producer_id] = aborted
                self._seen_aborting.discard(aborted.producer_id)


def _kind(batch: memoryview) -> ControlType:
    records = decode_batch(batch)
    if not records:
        raise DecodeError("a control batch without its record")
    return control_type(records[0])
