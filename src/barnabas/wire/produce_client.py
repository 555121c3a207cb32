"""Produce as a client sees it: requests written, responses read, at every version (3 to 13)."""

import struct
from typing import Final, NamedTuple

from barnabas.model.errors import DecodeError
from barnabas.wire.endpoints import NodeEndpoint, parse_endpoints
from barnabas.wire.primitives import (
    INT32,
    MALFORMED,
    Readable,
    encode_count,
    encode_string,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_nullable_string,
    read_string,
    read_tags,
    skip_tagged_fields,
)
from barnabas.wire.produce import (
    FLEXIBLE_FROM,
    TOPIC_IDS_FROM,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopicResult,
)

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_LEADER: Final = struct.Struct(">ii")
_RESULT_V3: Final = struct.Struct(">ihqq")
_RESULT_V5: Final = struct.Struct(">ihqqq")
_RESULT_BYTES_MIN: Final = 22


class ProduceResponse(NamedTuple):
    """One Produce response."""

    topics: list[ProduceTopicResult]
    throttle_ms: int
    node_endpoints: list[NodeEndpoint]


def encode_produce_request(version: int, request: ProduceRequest) -> list[bytes | memoryview]:
    """The body of a request in pieces; the records are among them as they were given."""
    flexible = version >= FLEXIBLE_FROM
    pieces: list[bytes | memoryview] = []
    small = bytearray(encode_string(request.transactional_id, flexible))
    small += _ACKS_TIMEOUT.pack(request.acks, request.timeout_ms)
    small += encode_count(len(request.topics), flexible)
    for name, topic_id, partitions in request.topics:
        if version >= TOPIC_IDS_FROM:
            small += topic_id or bytes(16)
        else:
            small += encode_string(name or "", flexible)
        small += encode_count(len(partitions), flexible)
        for index, records in partitions:
            small += INT32.pack(index)
            small += encode_count(-1 if records is None else len(records), flexible)
            if records:
                pieces += (bytes(small), records)
                small.clear()
            if flexible:
                small += b"\x00"
        if flexible:
            small += b"\x00"
    if flexible:
        small += b"\x00"
    if small:
        pieces.append(bytes(small))
    return pieces


def parse_produce_response(version: int, frame: Readable, position: int) -> ProduceResponse:
    """The response whose body begins at `position`."""
    try:
        return _parse_response(version, frame, position)
    except MALFORMED as problem:
        raise DecodeError(f"malformed Produce response: {problem}") from problem


def _parse_response(version: int, frame: Readable, position: int) -> ProduceResponse:
    flexible = version >= FLEXIBLE_FROM
    count, position = read_count(frame, position, flexible=flexible, element_bytes=3)
    topics = []
    for _ in range(count):
        name = topic_id = None
        if version >= TOPIC_IDS_FROM:
            topic_id = bytes(frame[position : position + 16])
            position += 16
        else:
            read_name = read_compact_string if flexible else read_string
            name, position = read_name(frame, position)
        results, position = read_count(
            frame, position, flexible=flexible, element_bytes=_RESULT_BYTES_MIN
        )
        partitions = []
        for _ in range(results):
            result, position = _parse_result(version, frame, position)
            partitions.append(result)
        if flexible:
            position = skip_tagged_fields(frame, position)
        topics.append(ProduceTopicResult(name, topic_id, partitions))
    (throttle_ms,) = INT32.unpack_from(frame, position)
    endpoints = parse_endpoints(frame, position + 4) if flexible else []
    return ProduceResponse(topics, throttle_ms, endpoints)


def _parse_result(
    version: int, frame: Readable, position: int
) -> tuple[ProducePartitionResult, int]:
    if version < 5:
        result = ProducePartitionResult(*_RESULT_V3.unpack_from(frame, position))
        return result, position + _RESULT_V3.size
    fixed = _RESULT_V5.unpack_from(frame, position)
    position += _RESULT_V5.size
    if version < 8:
        return ProducePartitionResult(*fixed), position
    flexible = version >= FLEXIBLE_FROM
    read_message = read_compact_nullable_string if flexible else read_nullable_string
    count, position = read_count(frame, position, flexible=flexible, element_bytes=6)
    record_errors = []
    for _ in range(count):
        (record_index,) = INT32.unpack_from(frame, position)
        record_message, position = read_message(frame, position + 4)
        if flexible:
            position = skip_tagged_fields(frame, position)
        record_errors.append((record_index, record_message))
    message, position = read_message(frame, position)
    leader = None
    if flexible:
        starts, position = read_tags(frame, position)
        if 0 in starts:
            leader_id, leader_epoch = _LEADER.unpack_from(frame, starts[0])
            leader = (leader_id, leader_epoch)
    result = ProducePartitionResult(*fixed)._replace(
        message=message, current_leader=leader, record_errors=record_errors
    )
    return result, position
