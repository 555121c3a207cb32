"""Records of an internal topic, to batches and back."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from barnabas.model.errors import DecodeError
from barnabas.model.transactions import NOBODY, ProducerIdentity
from barnabas.wire.records.batch import walk
from barnabas.wire.records.control import ControlType, control_type
from barnabas.wire.records.record import NewRecord, decode_batch, encode_batch

logger = logging.getLogger(__name__)

Pair = tuple[bytes, bytes | None]
"""Key and value; no value removes the key."""

BATCH_BYTES_MAX: Final = 512 * 1024
"""Where a batch ends when there is more to write: a reader holds whole batches in memory."""

_NO_SEQUENCE: Final = -1
_COORDINATORS_SEQUENCE: Final = 0
"""What Kafka's coordinators write into every batch of a transaction: it numbers nothing."""


class Batch(NamedTuple):
    """What a batch means for a shard."""

    next_offset: int
    pairs: list[Pair]
    producer_id: int | None = None
    """Whose transaction this is part of, or the end of."""
    committed: bool | None = None
    """How that transaction has ended; None unless this is the marker."""


def pack(
    pairs: Iterable[Pair], now_ms: int, producer: ProducerIdentity = NOBODY
) -> Iterator[bytes]:
    """One batch, unless the records are large: what is written together is read together.

    With a producer, the records are part of its transaction.
    """
    records: list[NewRecord] = []
    size = 0
    for key, value in pairs:
        records.append((now_ms, key, value, []))
        size += len(key) + len(value or b"")
        if size >= BATCH_BYTES_MAX:
            yield _encoded(records, producer)
            records, size = [], 0
    if records:
        yield _encoded(records, producer)


def _encoded(records: list[NewRecord], producer: ProducerIdentity) -> bytes:
    transactional = producer != NOBODY
    return encode_batch(
        records,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=_COORDINATORS_SEQUENCE if transactional else _NO_SEQUENCE,
        transactional=transactional,
    )


def unpack(data: memoryview) -> Iterator[Batch]:
    """Every whole batch. DecodeError if one is damaged."""
    for position, header in walk(data):
        following = header.last_offset + 1
        producer_id = header.producer_id if header.is_transactional else None
        if header.is_control:
            yield Batch(following, [], producer_id, _ending(data, position))
            continue
        records = decode_batch(data, position)
        pairs = [(each.key, each.value) for each in records if each.key is not None]
        yield Batch(following, pairs, producer_id)


def _ending(data: memoryview, position: int) -> bool | None:
    """Whether a control batch commits or aborts; None for one that does neither, for instance
    one that compaction has emptied, or one that can not be read."""
    try:
        kinds = [control_type(record) for record in decode_batch(data, position)]
    except DecodeError as error:
        logger.error("a control batch can not be read and is stepped over: %s", error)
        return None
    if ControlType.COMMIT in kinds:
        return True
    return False if ControlType.ABORT in kinds else None
