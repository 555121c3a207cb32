"""Producer snapshot files: Kafka's format (version 1), one row a remembered batch.

Kafka writes one row a producer and, reading, lets a later row of the same producer win. So all
five remembered batches are written, oldest first: Kafka reads the newest, we read them all, and
a retry of an older batch is recognised across a restart too.
"""

import logging
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from crc32c import crc32c

from barnabas.log import names
from barnabas.log.producers import Producer, ProducerStates, StoredBatch
from barnabas.log.reading import batches
from barnabas.log.replay import replay
from barnabas.log.segment import Segment
from barnabas.model.errors import DecodeError
from barnabas.ports.files import Files

logger = logging.getLogger(__name__)

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_ROW: Final = struct.Struct(">qhiqiqiq")
_CRC_FROM: Final = 6
_SEQUENCE_MASK: Final = 0x7FFFFFFF


def encode_snapshot(producers: Iterable[tuple[int, Producer]]) -> bytes:
    """The file's content."""
    rows = bytearray()
    count = 0
    for producer_id, producer in producers:
        batches: Iterable[StoredBatch] = producer.batches or (
            StoredBatch(-1, -1, -1, -1, producer.seen_ms),
        )
        for batch in batches:
            rows += _ROW.pack(
                producer_id,
                producer.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.last_offset - batch.first_offset,
                batch.timestamp,
                producer.coordinator_epoch,
                producer.transaction_start,
            )
            count += 1
    body = struct.pack(">i", count) + bytes(rows)
    return struct.pack(">hI", _VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, now_ms: int) -> dict[int, Producer]:
    """The producers a file holds. Raises DecodeError when the file is damaged."""
    if len(data) < _HEAD.size:
        raise DecodeError("a producer snapshot of too few bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DecodeError(f"a producer snapshot of version {version}")
    if crc32c(data[_CRC_FROM:]) != crc:
        raise DecodeError("a producer snapshot whose checksum does not match")
    if count < 0 or len(data) != _HEAD.size + count * _ROW.size:
        raise DecodeError("a producer snapshot whose row count does not match its size")
    producers: dict[int, Producer] = {}
    for row in _ROW.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, start = row
        producer = producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = producers[producer_id] = Producer(epoch)
        producer.seen_ms = timestamp if timestamp >= 0 else now_ms
        producer.coordinator_epoch = coordinator
        producer.transaction_start = start
        if last_offset < 0:
            producer.marker_timestamp = timestamp
            continue
        numbered = last_sequence >= 0
        first_sequence = (last_sequence - delta) & _SEQUENCE_MASK if numbered else last_sequence
        batch = StoredBatch(
            first_sequence, last_sequence, last_offset - delta, last_offset, timestamp
        )
        producer.batches.append(batch)
    return producers


def snapshots_in(files: Files, directory: str) -> list[tuple[int, str]]:
    """Offset and path of every snapshot of a log, newest first."""
    found = ((names.offset_of(name, names.SNAPSHOT), name) for name in files.list(directory))
    offsets = [(offset, f"{directory}/{name}") for offset, name in found if offset is not None]
    return sorted(offsets, reverse=True)


def remove_stray_snapshots(files: Files, directory: str, segments: Sequence[Segment]) -> None:
    """Keep those at the bases of segments, which recovery begins from, and the newest other one.

    Every clean stop leaves one at the end offset. Those below the first segment go with the files
    of the segments that were there, and not before.
    """
    bases = {segment.base_offset for segment in segments}
    strays = [each for each in snapshots_in(files, directory) if each[0] not in bases]
    for offset, path in strays[1:]:
        if offset > segments[0].base_offset:
            files.remove(path)


def restored_producers(
    files: Files,
    directory: str,
    spans: list[tuple[Segment, int]],
    up_to: int,
    now_ms: int,
    *,
    committed: int | None = None,
) -> ProducerStates:
    """Load the newest sound snapshot at or below `up_to`, then replay batches up to there.

    Snapshots that are damaged are removed. Transactions that ended at or above `committed`, if
    that is given, are told of, too; snapshots do not, so an older one is loaded.
    """
    states = ProducerStates()
    replay_from = spans[0][0].base_offset
    newest = up_to if committed is None else min(up_to, committed)
    for offset, path in snapshots_in(files, directory):
        if offset > newest:
            continue
        try:
            states.restore(decode_snapshot(files.read(path), now_ms).items())
        except DecodeError as error:
            logger.warning("%s is left out: it is %s", path, error)
            files.remove(path)
            continue
        replay_from = offset
        break
    for segment, end in spans:
        if end <= replay_from or segment.base_offset >= up_to:
            continue
        for position, header in batches(segment, 0, segment.size):
            if replay_from <= header.base_offset < up_to:
                replay(states, segment, position, header, now_ms, committed=committed)
    return states


def remove_snapshots(files: Files, directory: str, unwanted: Callable[[int], bool]) -> None:
    """Remove the snapshots of these offsets."""
    for offset, path in snapshots_in(files, directory):
        if unwanted(offset):
            files.remove(path)
