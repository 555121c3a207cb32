"""What a partition remembers of idempotent producers: is a batch new, repeated, early or fenced?

Pure state: batch headers in, a verdict out. The window of five batches is what the protocol
lets a client keep in flight; a repeat of one of them is answered with its first offset.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import BatchHeader

NO_EPOCH = -1
_SEQUENCES = 1 << 31


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
    transaction_start: int = -1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the newest record, or -1."""
        return self.batches[-1].last_sequence if self.batches else -1

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

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def get(self, producer_id: int) -> Producer | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def check(self, header: BatchHeader) -> StoredBatch | None:
        """None: a new batch, append it. A stored batch: a repeat. Otherwise raises.

        An unknown producer may begin anywhere: its earlier batches may have expired.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        repeat = producer.repeated(header)
        if repeat is not None:
            return repeat
        who = f"producer {header.producer_id}"
        if header.producer_epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"Epoch {header.producer_epoch} of {who} is older than {producer.epoch}.",
            )
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                raise KafkaError(
                    ErrorCode.out_of_order_sequence_number,
                    f"The new epoch {header.producer_epoch} of {who} begins with sequence "
                    f"{header.base_sequence} instead of 0.",
                )
            return None
        expected = (producer.last_sequence + 1) % _SEQUENCES
        if producer.batches and header.base_sequence != expected:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"Sequence {header.base_sequence} of {who} follows {producer.last_sequence}.",
            )
        return None

    def record(self, header: BatchHeader, first_offset: int, now_ms: int) -> None:
        """Remember a batch that was appended at `first_offset`."""
        producer = self._producers.pop(header.producer_id, None)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = Producer(header.producer_epoch)
        if not header.is_control:
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
        if len(self._producers) > limits.PRODUCERS_PER_PARTITION_MAX:
            del self._producers[next(iter(self._producers))]

    def expire(self, older_than_ms: int) -> None:
        """Forget producers not heard of since a moment."""
        for producer_id, producer in list(self._producers.items()):
            if producer.seen_ms < older_than_ms:
                del self._producers[producer_id]

    def restore(self, producers: Iterable[tuple[int, Producer]]) -> None:
        """Replace everything by what a snapshot holds."""
        self._producers = dict(producers)
