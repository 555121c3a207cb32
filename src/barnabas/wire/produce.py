"""Produce as a broker sees it: requests read, responses written, at every version (3 to 13).

The hot path, coded by hand: the records of a partition are handed on as a view of the frame,
never copied, and never looked into.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.model import limits
from barnabas.model.errors import DecodeError
from barnabas.wire.endpoints import NodeEndpoint, encode_endpoints
from barnabas.wire.primitives import (
    INT16,
    INT32,
    MALFORMED,
    STRING_BYTES_MAX,
    encode_count,
    encode_string,
    read_compact_nullable_string,
    read_nullable_string,
    read_uvarint,
    skip_tagged_fields,
)

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_ACKS_TIMEOUT_COUNT: Final = struct.Struct(">hii")
_INDEX_LENGTH: Final = struct.Struct(">ii")
_LEADER_TAG: Final = struct.Struct(">BBBiiB")
_LEADER_BYTES: Final = 9
"""A leader's id and epoch, and the empty tagged section of that structure."""


class ProducePartition(NamedTuple):
    """The records for one partition: a view of the request's frame, or None for null."""

    index: int  # type: ignore[assignment]  # a tuple's method of that name is not missed
    records: memoryview | None


class ProduceTopic(NamedTuple):
    """The partitions of one topic, named up to version 12 and by its id from 13 on."""

    name: str | None
    topic_id: bytes | None
    partitions: list[ProducePartition]


class ProduceRequest(NamedTuple):
    """One Produce request."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class ProducePartitionResult(NamedTuple):
    """What became of one partition's records.

    `current_leader` is (leader id, leader epoch), told from version 10 on. `record_errors` are
    (index of the record in its batch, message), told from version 8 on.
    """

    index: int  # type: ignore[assignment]  # a tuple's method of that name is not missed
    error: int
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    current_leader: tuple[int, int] | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()


class ProduceTopicResult(NamedTuple):
    """The partitions of one topic, named as in the request."""

    name: str | None
    topic_id: bytes | None
    partitions: Sequence[ProducePartitionResult]


def parse_produce_request(version: int, frame: memoryview, position: int) -> ProduceRequest:
    """The request whose body begins at `position`; DecodeError for whatever is wrong with it."""
    try:
        if version >= FLEXIBLE_FROM:
            return _parse_flexible(version, frame, position)
        return _parse_plain(frame, position)
    except MALFORMED as problem:
        raise DecodeError(f"malformed Produce request: {problem}") from problem


def _parse_plain(frame: memoryview, position: int) -> ProduceRequest:
    transactional_id, position = read_nullable_string(frame, position)
    acks, timeout_ms, count = _ACKS_TIMEOUT_COUNT.unpack_from(frame, position)
    position += 10
    size = len(frame)
    _check_count(count, 0, size - position)
    topics = []
    partition_count = 0
    for _ in range(count):
        (length,) = INT16.unpack_from(frame, position)
        name_end = position + 2 + length
        if length < 0 or name_end > size:
            raise DecodeError(f"a topic name claims {length} bytes")
        name = str(frame[position + 2 : name_end], "utf-8")
        (partitions_here,) = INT32.unpack_from(frame, name_end)
        position = name_end + 4
        partition_count += partitions_here
        _check_count(partitions_here, partition_count, size - position)
        partitions = []
        for _ in range(partitions_here):
            index, length = _INDEX_LENGTH.unpack_from(frame, position)
            position += 8
            if length < 0:
                partitions.append(ProducePartition(index, None))
                continue
            end = position + length
            if end > size:
                raise DecodeError(f"the records of a partition claim {length} bytes")
            partitions.append(ProducePartition(index, frame[position:end]))
            position = end
        topics.append(ProduceTopic(name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _parse_flexible(version: int, frame: memoryview, position: int) -> ProduceRequest:
    if frame[position] == 0:
        transactional_id = None
        position += 1
    else:
        transactional_id, position = read_compact_nullable_string(frame, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    count, position = read_uvarint(frame, position + 6)
    size = len(frame)
    _check_count(count - 1, 0, size - position)
    topics = []
    partition_count = 0
    for _ in range(count - 1):
        name = topic_id = None
        if version >= TOPIC_IDS_FROM:
            end = position + 16
            topic_id = bytes(frame[position:end])
        else:
            length, position = read_uvarint(frame, position)
            end = position + length - 1
            if not 0 < length <= STRING_BYTES_MAX + 1 or end > size:
                raise DecodeError(f"a topic name claims {length - 1} bytes")
            name = str(frame[position:end], "utf-8")
        partitions_here, position = read_uvarint(frame, end)
        partition_count += partitions_here - 1
        _check_count(partitions_here - 1, partition_count, size - position)
        partitions = []
        for _ in range(partitions_here - 1):
            partition, position = _parse_flexible_partition(frame, position, size)
            partitions.append(partition)
        position = _after_tags(frame, position)
        topics.append(ProduceTopic(name, topic_id, partitions))
    _after_tags(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _parse_flexible_partition(
    frame: memoryview, position: int, size: int
) -> tuple[ProducePartition, int]:
    (index,) = INT32.unpack_from(frame, position)
    length, position = read_uvarint(frame, position + 4)
    if length == 0:
        return ProducePartition(index, None), _after_tags(frame, position)
    end = position + length - 1
    if end > size:
        raise DecodeError(f"the records of a partition claim {length - 1} bytes")
    partition = ProducePartition(index, frame[position:end])
    return partition, end + 1 if frame[end] == 0 else skip_tagged_fields(frame, end)


def _after_tags(frame: memoryview, position: int) -> int:
    return position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)


def _check_count(count: int, total: int, remaining: int) -> None:
    """Refuse null arrays, more elements than bytes, and more partitions than a broker can have."""
    if count < 0:
        raise DecodeError("an array that can not be null is null")
    if count > remaining or total > limits.PARTITIONS_PER_BROKER_MAX:
        raise DecodeError(f"an array claims {count} elements in {remaining} bytes")


# One partition's fixed part, by the first version that has it, and the usual whole of it: no
# record errors, no message, no tagged fields.
_RESULT_V3: Final = struct.Struct(">ihqq")
_RESULT_V5: Final = struct.Struct(">ihqqq")
_RESULT_V8_USUAL: Final = struct.Struct(">ihqqqih")
_RESULT_V9_USUAL: Final = struct.Struct(">ihqqqBBB")


def encode_produce_response(
    version: int,
    topics: Sequence[ProduceTopicResult],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The body of a response. What an older version can not say is left out."""
    flexible = version >= FLEXIBLE_FROM
    body = bytearray(encode_count(len(topics), flexible))
    for name, topic_id, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            body += topic_id or bytes(16)
        else:
            body += encode_string(name or "", flexible)
        body += encode_count(len(partitions), flexible)
        for partition in partitions:
            body += _encode_result(version, partition)
        if flexible:
            body += b"\x00"
    body += INT32.pack(throttle_ms)
    if flexible:
        body += encode_endpoints(node_endpoints) if version >= 10 else b"\x00"
    return bytes(body)


def _encode_result(version: int, result: ProducePartitionResult) -> bytes:
    index, error, base_offset, append_time, log_start, message, leader, record_errors = result
    if version < 5:
        return _RESULT_V3.pack(index, error, base_offset, append_time)
    if version < 8:
        return _RESULT_V5.pack(index, error, base_offset, append_time, log_start)
    if message is None and leader is None and not record_errors:
        if version < FLEXIBLE_FROM:
            return _RESULT_V8_USUAL.pack(index, error, base_offset, append_time, log_start, 0, -1)
        return _RESULT_V9_USUAL.pack(index, error, base_offset, append_time, log_start, 1, 0, 0)
    flexible = version >= FLEXIBLE_FROM
    encoded = bytearray(_RESULT_V5.pack(index, error, base_offset, append_time, log_start))
    encoded += encode_count(len(record_errors), flexible)
    for record_index, record_message in record_errors:
        encoded += INT32.pack(record_index) + encode_string(record_message, flexible)
        if flexible:
            encoded += b"\x00"
    encoded += encode_string(message, flexible)
    if flexible:
        if leader is None or version < 10:
            encoded += b"\x00"
        else:
            encoded += _LEADER_TAG.pack(1, 0, _LEADER_BYTES, *leader, 0)
    return bytes(encoded)
