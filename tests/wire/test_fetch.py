"""Fetch byte for byte against kio's codec, at every version, both ends; and hostile bytes."""

import io
import random
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer

from barnabas.model import limits
from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.fetch import (
    HIGH_WATERMARK_UNKNOWN,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopic,
    FetchTopicResult,
    ForgottenTopic,
    encode_fetch_response,
    parse_fetch_request,
)
from barnabas.wire.fetch_client import FetchResponse, encode_fetch_request, parse_fetch_response
from barnabas.wire.messages import version_type
from barnabas.wire.reshape import element_type

VERSIONS = range(4, 19)
int8 = st.integers(-128, 127)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=12)
ids = st.binary(min_size=16, max_size=16).filter(any)
pairs = st.tuples(int32, int32).filter(lambda pair: pair != (-1, -1))
long_pairs = st.tuples(int32, int64).filter(lambda pair: pair != (-1, -1))

partitions = st.builds(
    FetchPartition, int32, int32, int64, int32, int64, int32, st.none() | ids, int64
)
requests = st.builds(
    FetchRequest,
    int32,
    int64,
    int32,
    int32,
    int32,
    int8,
    int32,
    int32,
    st.lists(st.builds(FetchTopic, names, ids, st.lists(partitions, max_size=3)), max_size=3),
    st.lists(st.builds(ForgottenTopic, names, ids, st.lists(int32, max_size=3)), max_size=2),
    names,
    st.none() | names,
)
results = st.builds(
    FetchPartitionResult,
    int32,
    st.sampled_from(list(ErrorCode)).map(int),
    int64,
    int64,
    int64,
    st.none() | st.lists(st.tuples(int64, int64), max_size=3),
    int32,
    st.none() | st.binary(max_size=200),
    st.none() | pairs,
    st.none() | long_pairs,
)
responses = st.builds(
    FetchResponse,
    st.sampled_from(list(ErrorCode)).map(int),
    int32,
    st.lists(st.builds(FetchTopicResult, names, ids, st.lists(results, max_size=3)), max_size=3),
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


def kio_request(version: int, request: FetchRequest) -> bytes:
    kind = version_type(1, version, "request")
    topic_kind = element_type(kind, "topics")
    partition_kind = element_type(topic_kind, "partitions")
    extra: dict[str, Any] = {}
    if version >= 15:
        extra["replica_state"] = element_type(kind, "replica_state")(
            replica_id=request.replica_id, replica_epoch=request.replica_epoch
        )
    if version >= 7:
        forgotten_kind = element_type(kind, "forgotten_topics_data")
        extra["forgotten_topics_data"] = tuple(
            build(
                forgotten_kind,
                topic=topic.name,
                topic_id=UUID(bytes=topic.topic_id),
                partitions=tuple(topic.partitions),
            )
            for topic in request.forgotten
        )
    topics = tuple(
        build(
            topic_kind,
            topic=topic.name,
            topic_id=UUID(bytes=topic.topic_id),
            partitions=tuple(kio_partition(partition_kind, p) for p in topic.partitions),
        )
        for topic in request.topics
    )
    values = request._asdict() | extra
    values |= {"topics": topics, "max_wait": timedelta(milliseconds=request.max_wait_ms)}
    return written_by_kio(build(kind, **values))


def kio_partition(kind: Any, partition: FetchPartition) -> Any:
    directory = partition.replica_directory_id
    values = partition._asdict() | {
        "partition": partition.index,
        "partition_max_bytes": partition.max_bytes,
        "replica_directory_id": None if directory is None else UUID(bytes=directory),
    }
    return build(kind, **values)


def kio_response(version: int, response: FetchResponse) -> bytes:
    kind = version_type(1, version, "response")
    topic_kind = element_type(kind, "responses")
    partition_kind = element_type(topic_kind, "partitions")
    endpoints: tuple[Any, ...] = ()
    if version >= 16:
        endpoint_kind = element_type(kind, "node_endpoints")
        endpoints = tuple(endpoint_kind(**e._asdict()) for e in response.node_endpoints)
    topics = tuple(
        build(
            topic_kind,
            topic=topic.name,
            topic_id=UUID(bytes=topic.topic_id),
            partitions=tuple(kio_result(partition_kind, result) for result in topic.partitions),
        )
        for topic in response.topics
    )
    return written_by_kio(
        build(
            kind,
            throttle_time=timedelta(milliseconds=response.throttle_ms),
            error_code=ErrorCode(response.error),
            session_id=response.session_id,
            responses=topics,
            node_endpoints=endpoints,
        )
    )


def kio_result(kind: Any, result: FetchPartitionResult) -> Any:
    known = {field.name for field in fields(kind)}
    extra: dict[str, Any] = {}
    if "current_leader" in known and result.current_leader:
        leader_id, epoch = result.current_leader
        leader_kind = element_type(kind, "current_leader")
        extra["current_leader"] = leader_kind(leader_id=leader_id, leader_epoch=epoch)
    if "diverging_epoch" in known and result.diverging_epoch:
        epoch, end_offset = result.diverging_epoch
        diverging_kind = element_type(kind, "diverging_epoch")
        extra["diverging_epoch"] = diverging_kind(epoch=epoch, end_offset=end_offset)
    aborted_kind = element_type(kind, "aborted_transactions")
    aborted = None
    if result.aborted is not None:
        aborted = tuple(
            aborted_kind(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in result.aborted
        )
    return build(
        kind,
        partition_index=result.index,
        error_code=ErrorCode(result.error),
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=aborted,
        preferred_read_replica=result.preferred_read_replica,
        records=result.records,
        **extra,
    )


def request_as_told(version: int, request: FetchRequest) -> FetchRequest:
    """What is left of a request after a trip at this version."""

    def told(partition: FetchPartition) -> FetchPartition:
        if version < 5:
            partition = partition._replace(log_start_offset=-1)
        if version < 9:
            partition = partition._replace(current_leader_epoch=-1)
        if version < 12:
            partition = partition._replace(last_fetched_epoch=-1)
        if version < 17:
            partition = partition._replace(replica_directory_id=None)
        if version < 18:
            partition = partition._replace(high_watermark=HIGH_WATERMARK_UNKNOWN)
        return partition

    gone: dict[str, Any] = {"name": None} if version >= 13 else {"topic_id": None}
    topics = [
        topic._replace(partitions=[told(p) for p in topic.partitions], **gone)
        for topic in request.topics
    ]
    forgotten = [topic._replace(**gone) for topic in request.forgotten]
    request = request._replace(topics=topics, forgotten=forgotten)
    if version < 7:
        request = request._replace(session_id=0, session_epoch=-1, forgotten=[])
    if version < 11:
        request = request._replace(rack_id="")
    if version < 12:
        request = request._replace(cluster_id=None)
    if version < 15:
        request = request._replace(replica_epoch=-1)
    return request


def response_as_told(version: int, response: FetchResponse) -> FetchResponse:
    def told(result: FetchPartitionResult) -> FetchPartitionResult:
        if version < 5:
            result = result._replace(log_start_offset=-1)
        if version < 11:
            result = result._replace(preferred_read_replica=-1)
        if version < 12:
            result = result._replace(current_leader=None, diverging_epoch=None)
        return result

    topics = [
        FetchTopicResult(
            None if version >= 13 else topic.name,
            topic.topic_id if version >= 13 else None,
            [told(result) for result in topic.partitions],
        )
        for topic in response.topics
    ]
    response = response._replace(topics=topics)
    if version < 7:
        response = response._replace(error=0, session_id=0)
    if version < 16:
        response = response._replace(node_endpoints=[])
    return response


@settings(deadline=None)
@given(st.sampled_from(VERSIONS), requests, st.binary(max_size=10))
def test_requests(version: int, request: FetchRequest, before: bytes) -> None:
    encoded = kio_request(version, request)
    assert encode_fetch_request(version, request) == encoded
    frame = memoryview(bytearray(before + encoded))
    parsed = parse_fetch_request(version, frame, len(before))
    assert parsed == request_as_told(version, request)


@settings(deadline=None)
@given(st.sampled_from(VERSIONS), responses, st.binary(max_size=10))
def test_responses(version: int, response: FetchResponse, before: bytes) -> None:
    encoded = kio_response(version, response)
    assert b"".join(encode_fetch_response(version, *response)) == encoded
    parsed = parse_fetch_response(version, memoryview(before + encoded), len(before))
    assert parsed == response_as_told(version, response)


PARTITION = FetchPartition(0, 1, 2, 3, 4, 5, bytes(15) + b"d", 3)
REQUEST = FetchRequest(
    5,
    6,
    500,
    1,
    2**20,
    1,
    7,
    8,
    [FetchTopic("topic", bytes(15) + b"t", [PARTITION] * 2)],
    [ForgottenTopic("other", bytes(15) + b"o", [1, 2])],
    "rack",
    "cluster",
)
RECORDS = memoryview(b"0123456789")
RESULT = FetchPartitionResult(0, 1, 2, 3, 4, [(5, 6), (7, 8)], 9, RECORDS, (10, 11), (12, 13))
RESPONSE = FetchResponse(
    1,
    2,
    [FetchTopicResult("topic", bytes(15) + b"t", [RESULT, RESULT])],
    3,
    [NodeEndpoint(1, "host", 9092, "rack")],
)


def test_records_are_sent_as_they_are() -> None:
    pieces = encode_fetch_response(12, *RESPONSE)
    assert [piece is RECORDS for piece in pieces] == [False, True, False, True, False]


def test_records_received_are_views_of_the_frame() -> None:
    frame = bytearray(b"".join(encode_fetch_response(12, *RESPONSE)))
    parsed = parse_fetch_response(12, memoryview(frame), 0)
    frame[frame.index(b"0123456789")] = ord("X")
    records = parsed.topics[0].partitions[0].records
    assert records is not None
    assert bytes(records) == b"X123456789"


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_cut_short_are_refused(version: int) -> None:
    request = encode_fetch_request(version, REQUEST)
    for end in range(len(request)):
        with pytest.raises(DecodeError):
            parse_fetch_request(version, memoryview(request[:end]), 0)
    response = b"".join(encode_fetch_response(version, *RESPONSE))
    for end in range(len(response)):
        with pytest.raises(DecodeError):
            parse_fetch_response(version, memoryview(response[:end]), 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_hostile_bytes_do_no_worse_than_a_decode_error(version: int) -> None:
    rng = random.Random(version)
    request = encode_fetch_request(version, REQUEST)
    response = b"".join(encode_fetch_response(version, *RESPONSE))
    for position in range(max(len(request), len(response))):
        for hostile in (
            b"\x7f\xff\xff\xff",
            b"\xff\xff\xff\xff\x0f",
            b"\xff" * 8,
            rng.randbytes(3),
        ):
            with suppress(DecodeError):
                changed = request[:position] + hostile + request[position + 2 :]
                parse_fetch_request(version, memoryview(changed), 0)
            with suppress(DecodeError):
                changed = response[:position] + hostile + response[position + 2 :]
                parse_fetch_response(version, memoryview(changed), 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_null_topics_are_refused(version: int) -> None:
    empty = FetchRequest(-1, -1, 0, 0, 0, 0, 0, -1, [], [])
    encoded = encode_fetch_request(version, empty)
    at = (13 if version >= 15 else 17) + (8 if version >= 7 else 0)
    null = b"\x00" if version >= 12 else b"\xff\xff\xff\xff"
    assert parse_fetch_request(version, memoryview(encoded), 0) == empty
    with pytest.raises(DecodeError):
        parse_fetch_request(version, memoryview(encoded[:at] + null + encoded[at + len(null) :]), 0)


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = encode_fetch_request(12, REQUEST._replace(cluster_id=None))
    with_tag = encoded[:-1] + b"\x01\x63\x03abc"
    assert parse_fetch_request(12, memoryview(with_tag), 0) == parse_fetch_request(
        12, memoryview(encoded), 0
    )


@pytest.mark.parametrize("version", [11, 13])
def test_no_request_names_more_partitions_than_a_broker_can_have(version: int) -> None:
    per_topic = limits.PARTITIONS_PER_BROKER_MAX // 2 + 1
    topic = FetchTopic("t", bytes(16), [FetchPartition(*range(6))] * per_topic)
    one = encode_fetch_request(version, REQUEST._replace(topics=[topic]))
    assert len(parse_fetch_request(version, memoryview(one), 0).topics) == 1
    two = encode_fetch_request(version, REQUEST._replace(topics=[topic] * 2))
    with pytest.raises(DecodeError):
        parse_fetch_request(version, memoryview(two), 0)
