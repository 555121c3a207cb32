"""Control records: what a coordinator writes into a partition to end a transaction there.

A key is a version and a type, two 16-bit numbers; the value of a commit or abort marker is a
version and the coordinator's epoch. Versions above 0 may only have added fields at the end.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.model.errors import DecodeError
from barnabas.wire.records.record import Record, encode_batch

_VERSION: Final = 0
_KEY: Final = struct.Struct(">hh")
_MARKER: Final = struct.Struct(">hi")


class ControlType(IntEnum):
    """What a control record is about; those after COMMIT occur in logs that Kafka wrote."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The end of one producer's transaction in one partition."""

    committed: bool
    coordinator_epoch: int


def control_type(record: Record) -> ControlType:
    """Of a record of a control batch; UNKNOWN is to be ignored by readers, as the protocol asks."""
    if record.key is None or len(record.key) < _KEY.size:
        raise DecodeError("the key of a control record is cut short")
    version, kind = _KEY.unpack_from(record.key)
    if version < _VERSION:
        raise DecodeError(f"a control record of version {version}")
    return ControlType(kind) if kind in ControlType._value2member_map_ else ControlType.UNKNOWN


def decode_marker(record: Record) -> EndTransactionMarker:
    """A commit or abort marker; DecodeError when the record is something else."""
    kind = control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise DecodeError(f"a control record of type {kind.name} ends no transaction")
    if record.value is None or len(record.value) < _MARKER.size:
        raise DecodeError("the value of an end-of-transaction marker is cut short")
    version, coordinator_epoch = _MARKER.unpack_from(record.value)
    if version < _VERSION:
        raise DecodeError(f"an end-of-transaction marker of version {version}")
    return EndTransactionMarker(kind is ControlType.COMMIT, coordinator_epoch)


def encode_marker(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    """Key and value of the control record."""
    kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
    return _KEY.pack(_VERSION, kind), _MARKER.pack(_VERSION, marker.coordinator_epoch)


def marker_batch(
    marker: EndTransactionMarker, *, timestamp: int, producer_id: int, producer_epoch: int
) -> bytes:
    """The control batch that ends the producer's transaction; the log stamps its offset."""
    key, value = encode_marker(marker)
    return encode_batch(
        [(timestamp, key, value, [])],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
