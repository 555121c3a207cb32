"""Fetch as a client or a follower sees it: requests written, responses read (4 to 18)."""

import struct
from typing import Final, NamedTuple

from barnabas.model.errors import DecodeError
from barnabas.wire.endpoints import NodeEndpoint, parse_endpoints
from barnabas.wire.fetch import (
    FLEXIBLE_FROM,
    HIGH_WATERMARK_UNKNOWN,
    REPLICA_STATE_FROM,
    TOPIC_IDS_FROM,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopicResult,
)
from barnabas.wire.primitives import (
    INT32,
    INT64,
    MALFORMED,
    encode_count,
    encode_string,
    read_compact_string,
    read_count,
    read_string,
    read_tags,
    skip_tagged_fields,
    uvarint,
)

_WAITS_AND_SIZES: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iqB")
_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqi")

_RESULT_V4: Final = struct.Struct(">ihqq")
_RESULT_V5: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_THROTTLE_ERROR_SESSION: Final = struct.Struct(">ihi")


class FetchResponse(NamedTuple):
    """One Fetch response. The records are views of its frame."""

    error: int
    session_id: int
    topics: list[FetchTopicResult]
    throttle_ms: int
    node_endpoints: list[NodeEndpoint]


def encode_fetch_request(version: int, request: FetchRequest) -> bytes:
    """The body of a request. What an older version can not say is left out."""
    flexible = version >= FLEXIBLE_FROM
    body = bytearray()
    if version < REPLICA_STATE_FROM:
        body += INT32.pack(request.replica_id)
    body += _WAITS_AND_SIZES.pack(
        request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
    )
    if version >= 7:
        body += _SESSION.pack(request.session_id, request.session_epoch)
    body += encode_count(len(request.topics), flexible)
    for name, topic_id, partitions in request.topics:
        body += _encode_topic_name(version, name, topic_id)
        body += encode_count(len(partitions), flexible)
        for partition in partitions:
            body += _encode_partition(version, partition)
        if flexible:
            body += b"\x00"
    if version >= 7:
        body += encode_count(len(request.forgotten), flexible)
        for name, topic_id, indexes in request.forgotten:
            body += _encode_topic_name(version, name, topic_id)
            body += encode_count(len(indexes), flexible)
            body += struct.pack(f">{len(indexes)}i", *indexes)
            if flexible:
                body += b"\x00"
    if version >= 11:
        body += encode_string(request.rack_id, flexible)
    if flexible:
        body += _encode_request_tags(version, request)
    return bytes(body)


def _encode_topic_name(version: int, name: str | None, topic_id: bytes | None) -> bytes:
    if version >= TOPIC_IDS_FROM:
        return topic_id or bytes(16)
    return encode_string(name or "", flexible=version >= FLEXIBLE_FROM)


def _encode_partition(version: int, partition: FetchPartition) -> bytes:
    index, leader_epoch, offset, last_epoch, log_start, max_bytes, directory, mark = partition
    if version < 5:
        return _PARTITION_V4.pack(index, offset, max_bytes)
    if version < 9:
        return _PARTITION_V5.pack(index, offset, log_start, max_bytes)
    if version < FLEXIBLE_FROM:
        return _PARTITION_V9.pack(index, leader_epoch, offset, log_start, max_bytes)
    encoded = _PARTITION_V12.pack(index, leader_epoch, offset, last_epoch, log_start, max_bytes)
    tags = []
    if version >= 17 and directory is not None:
        tags.append(b"\x00\x10" + directory)
    if version >= 18 and mark != HIGH_WATERMARK_UNKNOWN:
        tags.append(b"\x01\x08" + INT64.pack(mark))
    return encoded + uvarint(len(tags)) + b"".join(tags)


def _encode_request_tags(version: int, request: FetchRequest) -> bytes:
    tags = []
    if request.cluster_id is not None:
        cluster_id = encode_string(request.cluster_id, flexible=True)
        tags.append(b"\x00" + uvarint(len(cluster_id)) + cluster_id)
    if version >= REPLICA_STATE_FROM and (request.replica_id, request.replica_epoch) != (-1, -1):
        state = _REPLICA_STATE.pack(request.replica_id, request.replica_epoch, 0)
        tags.append(b"\x01" + uvarint(len(state)) + state)
    return uvarint(len(tags)) + b"".join(tags)


def parse_fetch_response(version: int, frame: memoryview, position: int) -> FetchResponse:
    """The response whose body begins at `position`."""
    try:
        return _parse_response(version, frame, position)
    except MALFORMED as problem:
        raise DecodeError(f"malformed Fetch response: {problem}") from problem


def _parse_response(version: int, frame: memoryview, position: int) -> FetchResponse:
    flexible = version >= FLEXIBLE_FROM
    error, session_id = 0, 0
    if version >= 7:
        throttle_ms, error, session_id = _THROTTLE_ERROR_SESSION.unpack_from(frame, position)
        position += 10
    else:
        (throttle_ms,) = INT32.unpack_from(frame, position)
        position += 4
    count, position = read_count(frame, position, flexible=flexible, element_bytes=3)
    topics = []
    for _ in range(count):
        name = topic_id = None
        if version >= TOPIC_IDS_FROM:
            topic_id = bytes(frame[position : position + 16])
            position += 16
        else:
            name, position = (read_compact_string if flexible else read_string)(frame, position)
        results, position = read_count(frame, position, flexible=flexible, element_bytes=24)
        partitions = []
        for _ in range(results):
            result, position = _parse_result(version, frame, position)
            partitions.append(result)
        if flexible:
            position = skip_tagged_fields(frame, position)
        topics.append(FetchTopicResult(name, topic_id, partitions))
    endpoints = parse_endpoints(frame, position) if flexible else []
    return FetchResponse(error, session_id, topics, throttle_ms, endpoints)


def _parse_result(
    version: int, frame: memoryview, position: int
) -> tuple[FetchPartitionResult, int]:
    flexible = version >= FLEXIBLE_FROM
    log_start = -1
    if version >= 5:
        index, error, mark, stable, log_start = _RESULT_V5.unpack_from(frame, position)
        position += _RESULT_V5.size
    else:
        index, error, mark, stable = _RESULT_V4.unpack_from(frame, position)
        position += _RESULT_V4.size
    aborted, position = _parse_aborted(frame, position, flexible)
    preferred_replica = -1
    if version >= 11:
        (preferred_replica,) = INT32.unpack_from(frame, position)
        position += 4
    length, position = read_count(
        frame, position, flexible=flexible, element_bytes=1, nullable=True
    )
    records = None
    if length >= 0:
        records = frame[position : position + length]
        position += length
    leader = diverging = None
    if flexible:
        starts, position = read_tags(frame, position)
        if 0 in starts:
            epoch, end_offset = _EPOCH_END.unpack_from(frame, starts[0])
            diverging = (epoch, end_offset)
        if 1 in starts:
            leader_id, leader_epoch = _LEADER.unpack_from(frame, starts[1])
            leader = (leader_id, leader_epoch)
    result = FetchPartitionResult(
        index,
        error,
        mark,
        stable,
        log_start,
        aborted,
        preferred_replica,
        records,
        leader,
        diverging,
    )
    return result, position


def _parse_aborted(
    frame: memoryview, position: int, flexible: bool
) -> tuple[list[tuple[int, int]] | None, int]:
    count, position = read_count(
        frame, position, flexible=flexible, element_bytes=16, nullable=True
    )
    if count < 0:
        return None, position
    aborted = []
    for _ in range(count):
        producer_id, first_offset = _ABORTED.unpack_from(frame, position)
        position += 16
        if flexible:
            position = skip_tagged_fields(frame, position)
        aborted.append((producer_id, first_offset))
    return aborted, position
