"""Fetch as a broker sees it: requests read, responses written, at every version (4 to 18).

The hot path, coded by hand: a response is a list of pieces in which the records stand as they
were given, so that they are never copied on their way to the socket.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.model import limits
from barnabas.model.errors import DecodeError
from barnabas.wire.endpoints import NodeEndpoint, encode_endpoints
from barnabas.wire.primitives import (
    INT32,
    INT64,
    MALFORMED,
    encode_count,
    encode_string,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_string,
    read_tags,
    skip_tagged_fields,
)

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
HIGH_WATERMARK_UNKNOWN: Final = 2**63 - 1
"""What a follower that does not tell its high watermark is taken to have said (KIP-1166)."""


class FetchPartition(NamedTuple):
    """One partition to read from. What a version does not carry has Kafka's default."""

    index: int  # type: ignore[assignment]  # a tuple's method of that name is not missed
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    replica_directory_id: bytes | None = None
    high_watermark: int = HIGH_WATERMARK_UNKNOWN


class FetchTopic(NamedTuple):
    """The partitions of one topic, named up to version 12 and by its id from 13 on."""

    name: str | None
    topic_id: bytes | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions to take out of a fetch session."""

    name: str | None
    topic_id: bytes | None
    partitions: list[int]


class FetchRequest(NamedTuple):
    """One Fetch request. `replica_id` is -1 for a consumer."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str = ""
    cluster_id: str | None = None


class FetchPartitionResult(NamedTuple):
    """What one partition answers.

    `aborted` are (producer id, first offset); None is the protocol's null, for readers of
    uncommitted data. `current_leader` is (leader id, leader epoch) and `diverging_epoch`
    (epoch, end offset); both are told from version 12 on.
    """

    index: int  # type: ignore[assignment]  # a tuple's method of that name is not missed
    error: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: bytes | memoryview | None = None
    current_leader: tuple[int, int] | None = None
    diverging_epoch: tuple[int, int] | None = None


class FetchTopicResult(NamedTuple):
    """The partitions of one topic, named as in the request."""

    name: str | None
    topic_id: bytes | None
    partitions: Sequence[FetchPartitionResult]


_WAITS_AND_SIZES: Final = struct.Struct(">iiib")
_REPLICA_WAITS_AND_SIZES: Final = struct.Struct(">iiiib")
_SESSION: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iq")

_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqi")


def parse_fetch_request(version: int, frame: memoryview, position: int) -> FetchRequest:
    """The request whose body begins at `position`; DecodeError for whatever is wrong with it."""
    try:
        return _parse_request(version, frame, position)
    except MALFORMED as problem:
        raise DecodeError(f"malformed Fetch request: {problem}") from problem


def _parse_request(version: int, frame: memoryview, position: int) -> FetchRequest:
    flexible = version >= FLEXIBLE_FROM
    replica_id, replica_epoch = -1, -1
    if version >= REPLICA_STATE_FROM:
        max_wait, min_bytes, max_bytes, isolation = _WAITS_AND_SIZES.unpack_from(frame, position)
        position += 13
    else:
        replica_id, max_wait, min_bytes, max_bytes, isolation = (
            _REPLICA_WAITS_AND_SIZES.unpack_from(frame, position)
        )
        position += 17
    session_id, session_epoch = 0, -1
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(frame, position)
        position += 8
    topics, position = _parse_topics(version, frame, position)
    forgotten: list[ForgottenTopic] = []
    if version >= 7:
        forgotten, position = _parse_forgotten(version, frame, position)
    rack_id = ""
    cluster_id = None
    if version >= 11:
        rack_id, position = (read_compact_string if flexible else read_string)(frame, position)
    if flexible and frame[position] != 0:
        starts, _ = read_tags(frame, position)
        if 0 in starts:
            cluster_id, _ = read_compact_nullable_string(frame, starts[0])
        if 1 in starts and version >= REPLICA_STATE_FROM:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(frame, starts[1])
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        cluster_id,
    )


def _parse_topics(version: int, frame: memoryview, position: int) -> tuple[list[FetchTopic], int]:
    flexible = version >= FLEXIBLE_FROM
    count, position = read_count(frame, position, flexible=flexible, element_bytes=3)
    _check_total(count)
    topics = []
    total = 0
    for _ in range(count):
        name, topic_id, position = _parse_topic_name(version, frame, position)
        here, position = read_count(frame, position, flexible=flexible, element_bytes=16)
        total += here
        _check_total(total)
        if flexible:
            partitions, position = _parse_flexible_partitions(frame, position, here)
            position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
        else:
            partitions, position = _parse_plain_partitions(version, frame, position, here)
        topics.append(FetchTopic(name, topic_id, partitions))
    return topics, position


def _check_total(count: int) -> None:
    """No broker has more partitions than this, so no honest request names more."""
    if count > limits.PARTITIONS_PER_BROKER_MAX:
        raise DecodeError(f"a Fetch names {count} partitions")


def _parse_topic_name(
    version: int, frame: memoryview, position: int
) -> tuple[str | None, bytes | None, int]:
    if version >= TOPIC_IDS_FROM:
        return None, bytes(frame[position : position + 16]), position + 16
    name, position = (read_compact_string if version >= FLEXIBLE_FROM else read_string)(
        frame, position
    )
    return name, None, position


def _parse_flexible_partitions(
    frame: memoryview, position: int, count: int
) -> tuple[list[FetchPartition], int]:
    partitions = []
    for _ in range(count):
        fixed = _PARTITION_V12.unpack_from(frame, position)
        position += 32
        if frame[position] == 0:
            position += 1
            partitions.append(FetchPartition(*fixed))
            continue
        starts, position = read_tags(frame, position)
        directory_id = None
        high_watermark = HIGH_WATERMARK_UNKNOWN
        if 0 in starts:
            directory_id = bytes(frame[starts[0] : starts[0] + 16])
        if 1 in starts:
            (high_watermark,) = INT64.unpack_from(frame, starts[1])
        partitions.append(
            FetchPartition(*fixed)._replace(
                replica_directory_id=directory_id, high_watermark=high_watermark
            )
        )
    return partitions, position


def _parse_plain_partitions(
    version: int, frame: memoryview, position: int, count: int
) -> tuple[list[FetchPartition], int]:
    if version >= 9:
        end = position + count * _PARTITION_V9.size
        partitions = [
            FetchPartition(index, epoch, offset, -1, log_start, max_bytes)
            for index, epoch, offset, log_start, max_bytes in _PARTITION_V9.iter_unpack(
                frame[position:end]
            )
        ]
    elif version >= 5:
        end = position + count * _PARTITION_V5.size
        partitions = [
            FetchPartition(index, -1, offset, -1, log_start, max_bytes)
            for index, offset, log_start, max_bytes in _PARTITION_V5.iter_unpack(
                frame[position:end]
            )
        ]
    else:
        end = position + count * _PARTITION_V4.size
        partitions = [
            FetchPartition(index, -1, offset, -1, -1, max_bytes)
            for index, offset, max_bytes in _PARTITION_V4.iter_unpack(frame[position:end])
        ]
    if len(partitions) != count:
        raise DecodeError(f"the request ends before {count} partitions")
    return partitions, end


def _parse_forgotten(
    version: int, frame: memoryview, position: int
) -> tuple[list[ForgottenTopic], int]:
    flexible = version >= FLEXIBLE_FROM
    count, position = read_count(frame, position, flexible=flexible, element_bytes=3)
    _check_total(count)
    forgotten = []
    total = 0
    for _ in range(count):
        name, topic_id, position = _parse_topic_name(version, frame, position)
        here, position = read_count(frame, position, flexible=flexible, element_bytes=4)
        total += here
        _check_total(total)
        end = position + here * 4
        partitions = [index for (index,) in INT32.iter_unpack(frame[position:end])]
        position = skip_tagged_fields(frame, end) if flexible else end
        forgotten.append(ForgottenTopic(name, topic_id, partitions))
    return forgotten, position


_RESULT_V4: Final = struct.Struct(">ihqq")
_RESULT_V5: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_TAGGED_PAIR_I64: Final = struct.Struct(">BBiqB")
_TAGGED_PAIR_I32: Final = struct.Struct(">BBiiB")
_THROTTLE_ERROR_SESSION: Final = struct.Struct(">ihi")


def encode_fetch_response(
    version: int,
    error: int,
    session_id: int,
    topics: Sequence[FetchTopicResult],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | memoryview]:
    """The body of a response in pieces. What an older version can not say is left out."""
    flexible = version >= FLEXIBLE_FROM
    pieces: list[bytes | memoryview] = []
    if version >= 7:
        small = bytearray(_THROTTLE_ERROR_SESSION.pack(throttle_ms, error, session_id))
    else:
        small = bytearray(INT32.pack(throttle_ms))
    small += encode_count(len(topics), flexible)
    for name, topic_id, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            small += topic_id or bytes(16)
        else:
            small += encode_string(name or "", flexible)
        small += encode_count(len(partitions), flexible)
        for result in partitions:
            small += _encode_result(version, result)
            records = result.records
            if records:
                pieces.append(bytes(small))
                pieces.append(records)
                small.clear()
            if flexible:
                small += _encode_result_tags(result)
        if flexible:
            small += b"\x00"
    if flexible:
        small += encode_endpoints(node_endpoints) if version >= 16 else b"\x00"
    if small:
        pieces.append(bytes(small))
    return pieces


def _encode_result(version: int, result: FetchPartitionResult) -> bytes:
    """One partition up to and including the length of its records."""
    index, error, high_watermark, last_stable, log_start, aborted, replica, records, _, _ = result
    flexible = version >= FLEXIBLE_FROM
    if version >= 5:
        encoded = _RESULT_V5.pack(index, error, high_watermark, last_stable, log_start)
    else:
        encoded = _RESULT_V4.pack(index, error, high_watermark, last_stable)
    if not aborted:
        encoded += encode_count(-1 if aborted is None else 0, flexible)
    else:
        encoded += encode_count(len(aborted), flexible)
        end = b"\x00" if flexible else b""
        encoded += b"".join(_ABORTED.pack(*transaction) + end for transaction in aborted)
    if version >= 11:
        encoded += INT32.pack(replica)
    return encoded + encode_count(-1 if records is None else len(records), flexible)


def _encode_result_tags(result: FetchPartitionResult) -> bytes:
    leader, diverging = result.current_leader, result.diverging_epoch
    if leader is None and diverging is None:
        return b"\x00"
    encoded = b"\x02" if leader is not None and diverging is not None else b"\x01"
    if diverging is not None:
        encoded += _TAGGED_PAIR_I64.pack(0, 13, *diverging, 0)
    if leader is not None:
        encoded += _TAGGED_PAIR_I32.pack(1, 9, *leader, 0)
    return encoded
