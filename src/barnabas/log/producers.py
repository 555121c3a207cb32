"""What a partition remembers of producers: is a batch new, repeated, early or fenced? Is a
transaction open?

Pure state: batch headers in, a verdict out. The window of five batches is what the protocol
lets a client keep in flight; a repeat of one of them is answered with its first offset.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.log.transactions import CompletedTransaction, Transactions
from barnabas.log.verification import OPEN_ALREADY, VerificationGuard, Verifications
from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import BUMPED_TRANSACTIONS, NO_PRODUCER_EPOCH, Marker
from barnabas.wire.records.batch import TRANSACTIONAL, BatchHeader

NO_TRANSACTION: Final = -1
_EPOCH_MAX: Final = 2**15 - 1
_SEQUENCES: Final = 1 << 31


class StoredBatch(NamedTuple):
    """A batch a producer has written here."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class Producer:
    """One producer id: its epoch, and the batches a retry may repeat, oldest first."""

    epoch: int
    batches: deque[StoredBatch] = field(
        default_factory=lambda: deque(maxlen=limits.PRODUCER_BATCHES_REMEMBERED)
    )
    seen_ms: int = 0
    coordinator_epoch: int = -1
    transaction_start: int = NO_TRANSACTION
    """Offset of the first batch of the open transaction."""
    marker_timestamp: int = -1
    """Of the last transaction's end, until the next begins."""

    @property
    def last_sequence(self) -> int:
        """Sequence number of the newest record, or -1."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_timestamp(self) -> int:
        """Of the newest batch, be it the producer's or the end of its transaction; or -1."""
        newest = self.batches[-1].timestamp if self.batches else -1
        return self.marker_timestamp if self.marker_timestamp >= 0 else newest

    def enter(self, epoch: int) -> None:
        """A new epoch has sequence numbers of its own; a transaction may reach into it."""
        self.epoch = epoch
        self.batches.clear()

    def repeated(self, header: BatchHeader) -> StoredBatch | None:
        """The stored batch that `header` repeats."""
        if header.producer_epoch != self.epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None


class ProducerStates:
    """Every producer known to one partition, least recently heard of first."""

    __slots__ = ("_producers", "transactions", "verifications")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self.transactions = Transactions()
        self.verifications = Verifications()

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def get(self, producer_id: int) -> Producer | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    # --- may it be written? --------------------------------------------------------------------

    def check(
        self, header: BatchHeader, guard: VerificationGuard | None = None
    ) -> StoredBatch | None:
        """None: a new batch, append it. A stored batch: a repeat. Otherwise raises.

        An unknown producer may begin anywhere: its earlier batches may have expired.
        """
        producer = self._producers.get(header.producer_id)
        if header.attributes & TRANSACTIONAL or self.verifications:
            return self._check_closely(header, producer, guard)
        if producer is None:
            return None
        repeat = producer.repeated(header)
        if repeat is not None:
            return repeat
        if header.producer_epoch != producer.epoch or producer.transaction_start >= 0:
            _check_epoch(header, producer)
            _check_sequence(header, producer)
            _check_outside_transactions(header, producer)
        elif header.base_sequence != (producer.last_sequence + 1) % _SEQUENCES:
            _refuse_sequence(header, producer)
        return None

    def _check_closely(
        self, header: BatchHeader, producer: Producer | None, guard: VerificationGuard | None
    ) -> StoredBatch | None:
        """A batch of a transaction, or of a producer that may be waiting to begin one."""
        # The coordinators' own batches have no sequence numbers: each comes once.
        numbered = header.base_sequence >= 0
        repeat = producer.repeated(header) if producer is not None and numbered else None
        if repeat is not None:
            return repeat
        if producer is not None:
            _check_epoch(header, producer)
        if header.is_transactional and not _is_open(producer, header.producer_epoch):
            self._check_guard(header, guard)
        if numbered:
            self._check_waiting(header, producer)
        if producer is not None:
            if numbered:
                _check_sequence(header, producer)
            if not header.is_transactional:
                _check_outside_transactions(header, producer)
        return None

    def _check_guard(self, header: BatchHeader, guard: VerificationGuard | None) -> None:
        if not self.verifications.confirms(header.producer_id, guard):
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"Producer {header.producer_id} has no transaction here that its coordinator has "
                "confirmed.",
            )

    def _check_waiting(self, header: BatchHeader, producer: Producer | None) -> None:
        waiting = self.verifications.get(header.producer_id)
        if waiting is None:
            return
        sequence = header.base_sequence
        is_first = producer is None or not producer.batches
        if sequence > waiting.lowest_sequence or (waiting.bumps_epochs and is_first and sequence):
            expected = 0 if waiting.bumps_epochs and is_first else waiting.lowest_sequence
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"Sequence {sequence} of producer {header.producer_id} comes before {expected}.",
            )

    def begin_verification(
        self, header: BatchHeader, now_ms: int, *, bumps_epochs: bool
    ) -> VerificationGuard:
        """The guard to ask the coordinator under; `header` is of a transactional batch."""
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            _check_epoch(header, producer)
        if _is_open(producer, header.producer_epoch):
            return OPEN_ALREADY
        return self.verifications.begin(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            bumps_epochs=bumps_epochs,
            now_ms=now_ms,
        )

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a batch of that epoch would go on with a transaction that is open here."""
        return _is_open(self._producers.get(producer_id), epoch)

    def check_marker(self, marker: Marker) -> None:
        """Raise what keeps a marker from being written, if anything does."""
        producer = self._producers.get(marker.producer_id)
        current = NO_PRODUCER_EPOCH if producer is None else producer.epoch
        if marker.transaction_version >= BUMPED_TRANSACTIONS:
            # Of two transactions with one epoch, a late marker could end the wrong one. One that
            # is sent again after it was written finds no transaction, and does no harm.
            is_open = producer is not None and producer.transaction_start >= 0
            again = marker.epoch == current and (not is_open or current == _EPOCH_MAX)
            fenced = marker.epoch <= current and not again
        else:
            fenced = marker.epoch < current
        if fenced:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"A marker of epoch {marker.epoch} of producer {marker.producer_id} comes after "
                f"epoch {current}.",
            )
        if producer is not None and marker.coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.transaction_coordinator_fenced,
                f"Coordinator epoch {marker.coordinator_epoch} for producer {marker.producer_id} "
                f"is older than {producer.coordinator_epoch}.",
            )

    # --- it was written ------------------------------------------------------------------------

    def record(self, header: BatchHeader, first_offset: int, now_ms: int) -> None:
        """Remember a batch that was appended at `first_offset`."""
        producer = self._producers.pop(header.producer_id, None)
        if producer is None:
            producer = Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.enter(header.producer_epoch)
        producer.batches.append(
            StoredBatch(
                header.base_sequence,
                header.last_sequence,
                first_offset,
                first_offset + header.last_offset_delta,
                header.max_timestamp,
            )
        )
        producer.seen_ms = now_ms
        self._producers[header.producer_id] = producer
        if header.attributes & TRANSACTIONAL:
            self.verifications.opened(header.producer_id)
            if producer.transaction_start < 0:
                producer.transaction_start = first_offset
                producer.marker_timestamp = -1
                self.transactions.begin(header.producer_id, first_offset)
        if len(self._producers) > limits.PRODUCERS_PER_PARTITION_MAX:
            self._forget_oldest()

    def ending(
        self, producer_id: int, offset: int, *, aborted: bool
    ) -> CompletedTransaction | None:
        """What a marker at `offset` would end. (A marker alone, without batches, ends nothing.)"""
        producer = self._producers.get(producer_id)
        if producer is None or producer.transaction_start < 0:
            return None
        return CompletedTransaction(producer_id, producer.transaction_start, offset, aborted)

    def record_marker(
        self, header: BatchHeader, coordinator_epoch: int, offset: int, now_ms: int
    ) -> None:
        """Remember a control batch at `offset` that ended the producer's transaction."""
        producer_id = header.producer_id
        producer = self._producers.pop(producer_id, None)
        if producer is None:
            producer = Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.enter(header.producer_epoch)
        if producer.transaction_start >= 0:
            producer.transaction_start = NO_TRANSACTION
            self.transactions.end(producer_id, offset)
        producer.coordinator_epoch = coordinator_epoch
        producer.marker_timestamp = header.max_timestamp
        producer.seen_ms = now_ms
        self._producers[producer_id] = producer
        if len(self._producers) > limits.PRODUCERS_PER_PARTITION_MAX:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Of those without an open transaction, which must be known until it ends."""
        if len(self.transactions.ongoing) >= len(self._producers):
            return
        oldest = next(iter(self._producers))
        while (producer := self._producers.pop(oldest)).transaction_start >= 0:
            # To the other end with it, so that nobody has to step over it again and again.
            self._producers[oldest] = producer
            oldest = next(iter(self._producers))

    def expire(self, older_than_ms: int) -> None:
        """Forget producers not heard of since a moment, unless their transaction is open."""
        for producer_id, producer in list(self._producers.items()):
            if producer.seen_ms < older_than_ms and producer.transaction_start < 0:
                del self._producers[producer_id]
        self.verifications.expire(older_than_ms)

    def restore(self, producers: Iterable[tuple[int, Producer]]) -> None:
        """Replace everything by what a snapshot holds."""
        self._producers = dict(producers)
        self.transactions.restore(
            (producer_id, producer.transaction_start)
            for producer_id, producer in self._producers.items()
            if producer.transaction_start >= 0
        )


def _is_open(producer: Producer | None, epoch: int) -> bool:
    return producer is not None and producer.transaction_start >= 0 and producer.epoch == epoch


def _check_epoch(header: BatchHeader, producer: Producer) -> None:
    if header.producer_epoch < producer.epoch:
        raise KafkaError(
            ErrorCode.invalid_producer_epoch,
            f"Epoch {header.producer_epoch} of producer {header.producer_id} is older than "
            f"{producer.epoch}.",
        )


def _check_sequence(header: BatchHeader, producer: Producer) -> None:
    if header.producer_epoch != producer.epoch:
        if header.base_sequence != 0:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"The new epoch {header.producer_epoch} of producer {header.producer_id} begins "
                f"with sequence {header.base_sequence} instead of 0.",
            )
    elif header.base_sequence != (producer.last_sequence + 1) % _SEQUENCES:
        _refuse_sequence(header, producer)


def _refuse_sequence(header: BatchHeader, producer: Producer) -> None:
    raise KafkaError(
        ErrorCode.out_of_order_sequence_number,
        f"Sequence {header.base_sequence} of producer {header.producer_id} follows "
        f"{producer.last_sequence}.",
    )


def _check_outside_transactions(header: BatchHeader, producer: Producer) -> None:
    if producer.transaction_start >= 0:
        raise KafkaError(
            ErrorCode.invalid_txn_state,
            f"Producer {header.producer_id} sends a batch outside its open transaction.",
        )
