"""Produce byte for byte against kio's codec, at every version, both ends; and hostile bytes."""

import io
import random
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer

from barnabas.model import limits
from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.messages import version_type
from barnabas.wire.produce import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopic,
    ProduceTopicResult,
    encode_produce_response,
    parse_produce_request,
)
from barnabas.wire.produce_client import (
    ProduceResponse,
    encode_produce_request,
    parse_produce_response,
)
from barnabas.wire.reshape import element_type

VERSIONS = range(3, 14)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=12)
topic_ids = st.binary(min_size=16, max_size=16).filter(any)
views: st.SearchStrategy[memoryview] = st.builds(memoryview, st.binary(max_size=200))
records = st.none() | views
errors = st.sampled_from(list(ErrorCode)).map(int)

requests = st.builds(
    ProduceRequest,
    st.none() | names,
    int16,
    int32,
    st.lists(
        st.builds(
            ProduceTopic,
            names,
            topic_ids,
            st.lists(st.builds(ProducePartition, int32, records), max_size=3),
        ),
        max_size=3,
    ),
)
results = st.builds(
    ProducePartitionResult,
    int32,
    errors,
    int64,
    st.just(-1) | st.integers(0, 2**31).map(lambda seconds: seconds * 1000),
    int64,
    st.none() | names,
    st.none() | st.tuples(int32, int32).filter(lambda leader: leader != (-1, -1)),
    st.lists(st.tuples(int32, st.none() | names), max_size=2),
)
responses = st.builds(
    ProduceResponse,
    st.lists(
        st.builds(ProduceTopicResult, names, topic_ids, st.lists(results, max_size=3)), max_size=3
    ),
    int32,
    st.lists(st.builds(NodeEndpoint, int32, names, int32, st.none() | names), max_size=2),
)


def build(kind: Any, **values: Any) -> Any:
    """An entity of kio's from those of the values that its version has."""
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in known})


def written_by_kio(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def kio_request(version: int, request: ProduceRequest) -> bytes:
    kind = version_type(0, version, "request")
    topic_kind = element_type(kind, "topic_data")
    partition_kind = element_type(topic_kind, "partition_data")
    topics = tuple(
        build(
            topic_kind,
            name=topic.name,
            topic_id=UUID(bytes=topic.topic_id),
            partition_data=tuple(
                partition_kind(
                    index=partition.index,
                    records=None if partition.records is None else bytes(partition.records),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return written_by_kio(
        kind(
            transactional_id=request.transactional_id,
            acks=request.acks,
            timeout=timedelta(milliseconds=request.timeout_ms),
            topic_data=topics,
        )
    )


def kio_response(version: int, response: ProduceResponse) -> bytes:
    kind = version_type(0, version, "response")
    topic_kind = element_type(kind, "responses")
    partition_kind = element_type(topic_kind, "partition_responses")
    topics = tuple(
        build(
            topic_kind,
            name=topic.name,
            topic_id=UUID(bytes=topic.topic_id),
            partition_responses=tuple(
                kio_result(partition_kind, result) for result in topic.partitions
            ),
        )
        for topic in response.topics
    )
    endpoints: tuple[Any, ...] = ()
    if version >= 10:
        endpoint_kind = element_type(kind, "node_endpoints")
        endpoints = tuple(endpoint_kind(**e._asdict()) for e in response.node_endpoints)
    return written_by_kio(
        build(
            kind,
            responses=topics,
            throttle_time=timedelta(milliseconds=response.throttle_ms),
            node_endpoints=endpoints,
        )
    )


def kio_result(kind: Any, result: ProducePartitionResult) -> Any:
    known = {field.name: field for field in fields(kind)}
    extra: dict[str, Any] = {}
    if "record_errors" in known:
        error_kind = element_type(kind, "record_errors")
        extra["record_errors"] = tuple(
            error_kind(batch_index=index, batch_index_error_message=message)
            for index, message in result.record_errors
        )
    if "current_leader" in known and result.current_leader:
        leader_id, leader_epoch = result.current_leader
        leader_kind = element_type(kind, "current_leader")
        extra["current_leader"] = leader_kind(leader_id=leader_id, leader_epoch=leader_epoch)
    append_time = None
    if result.log_append_time_ms >= 0:
        append_time = datetime.fromtimestamp(result.log_append_time_ms / 1000, UTC)
    return build(
        kind,
        index=result.index,
        error_code=ErrorCode(result.error),
        base_offset=result.base_offset,
        log_append_time=append_time,
        log_start_offset=result.log_start_offset,
        error_message=result.message,
        **extra,
    )


def request_as_told(version: int, request: ProduceRequest) -> ProduceRequest:
    """What is left of a request after a trip at this version."""
    topics = [
        topic._replace(name=None) if version >= 13 else topic._replace(topic_id=None)
        for topic in request.topics
    ]
    return request._replace(topics=topics)


def response_as_told(version: int, response: ProduceResponse) -> ProduceResponse:
    def told(result: ProducePartitionResult) -> ProducePartitionResult:
        if version < 5:
            result = result._replace(log_start_offset=-1)
        if version < 8:
            result = result._replace(message=None, record_errors=())
        if version < 10:
            result = result._replace(current_leader=None)
        return result

    topics = [
        ProduceTopicResult(
            None if version >= 13 else topic.name,
            topic.topic_id if version >= 13 else None,
            [told(result) for result in topic.partitions],
        )
        for topic in response.topics
    ]
    endpoints = response.node_endpoints if version >= 10 else []
    return ProduceResponse(topics, response.throttle_ms, endpoints)


@settings(deadline=None)
@given(st.sampled_from(VERSIONS), requests, st.binary(max_size=10))
def test_requests(version: int, request: ProduceRequest, before: bytes) -> None:
    encoded = kio_request(version, request)
    assert b"".join(encode_produce_request(version, request)) == encoded
    frame = memoryview(bytearray(before + encoded))
    parsed = parse_produce_request(version, frame, len(before))
    assert parsed == request_as_told(version, request)


@settings(deadline=None)
@given(st.sampled_from(VERSIONS), responses, st.binary(max_size=10))
def test_responses(version: int, response: ProduceResponse, before: bytes) -> None:
    encoded = kio_response(version, response)
    assert encode_produce_response(version, *response) == encoded
    parsed = parse_produce_response(version, memoryview(before + encoded), len(before))
    assert parsed == response_as_told(version, response)


REQUEST = ProduceRequest(
    "transaction",
    -1,
    30_000,
    [
        ProduceTopic("a", bytes(15) + b"a", [ProducePartition(0, memoryview(b"0123456789"))]),
        ProduceTopic("bb", bytes(15) + b"b", [ProducePartition(1, None)] * 2),
    ],
)
RESULT = ProducePartitionResult(1, 2, 3, 4000, 5, "message", (6, 7), [(8, "record"), (9, None)])
RESPONSE = ProduceResponse(
    [ProduceTopicResult("a", bytes(15) + b"a", [RESULT, RESULT])], 5, [NodeEndpoint(1, "h", 2, "r")]
)


def test_records_are_a_view_of_the_frame() -> None:
    frame = bytearray(kio_request(9, REQUEST))
    parsed = parse_produce_request(9, memoryview(frame), 0)
    frame[frame.index(b"0123456789")] = ord("X")
    records = parsed.topics[0].partitions[0].records
    assert records is not None
    assert bytes(records) == b"X123456789"


def test_records_are_sent_as_they_are() -> None:
    given_records = REQUEST.topics[0].partitions[0].records
    assert any(piece is given_records for piece in encode_produce_request(9, REQUEST))


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_cut_short_are_refused(version: int) -> None:
    request = kio_request(version, REQUEST)
    for end in range(len(request)):
        with pytest.raises(DecodeError):
            parse_produce_request(version, memoryview(request[:end]), 0)
    response = kio_response(version, RESPONSE)
    for end in range(len(response)):
        with pytest.raises(DecodeError):
            parse_produce_response(version, memoryview(response[:end]), 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_hostile_bytes_do_no_worse_than_a_decode_error(version: int) -> None:
    rng = random.Random(version)
    request, response = kio_request(version, REQUEST), kio_response(version, RESPONSE)
    for position in range(max(len(request), len(response))):
        for hostile in (
            b"\x7f\xff\xff\xff",
            b"\xff\xff\xff\xff\x0f",
            b"\xff" * 8,
            rng.randbytes(3),
        ):
            with suppress(DecodeError):
                changed = request[:position] + hostile + request[position + 2 :]
                parse_produce_request(version, memoryview(changed), 0)
            with suppress(DecodeError):
                changed = response[:position] + hostile + response[position + 2 :]
                parse_produce_response(version, memoryview(changed), 0)


def test_null_arrays_are_refused() -> None:
    for version, null in ((3, b"\xff\xff\xff\xff"), (9, b"\x00")):
        head = kio_request(version, ProduceRequest(None, 1, 1, []))
        head = head[: 8 if version == 3 else 7]
        with pytest.raises(DecodeError):
            parse_produce_request(version, memoryview(head + null + b"\x00"), 0)


def test_tagged_fields_are_skipped_everywhere() -> None:
    tags = b"\x01\x09\x02xy"
    body = b"\x00\x00\x01\x00\x00\x00\x05\x02\x02t\x02\x00\x00\x00\x03\x03ab" + tags + tags + tags
    parsed = parse_produce_request(9, memoryview(body), 0)
    assert parsed.topics == [ProduceTopic("t", None, [ProducePartition(3, memoryview(b"ab"))])]


@pytest.mark.parametrize("version", [8, 12])
def test_no_request_names_more_partitions_than_a_broker_can_have(version: int) -> None:
    per_topic = limits.PARTITIONS_PER_BROKER_MAX // 2 + 1
    topic = ProduceTopic("t", None, [ProducePartition(0, None)] * per_topic)
    body = b"".join(encode_produce_request(version, ProduceRequest(None, 1, 1, [topic])))
    assert len(parse_produce_request(version, memoryview(body), 0).topics) == 1
    body = b"".join(encode_produce_request(version, ProduceRequest(None, 1, 1, [topic] * 2)))
    with pytest.raises(DecodeError):
        parse_produce_request(version, memoryview(body), 0)
