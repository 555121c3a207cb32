"""Request and response headers against kio's, and against hostile bytes."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as ResponseV0
from kio.schema.response_header.v1.header import ResponseHeader as ResponseV1
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from barnabas.model.errors import DecodeError
from barnabas.wire.apis import APIS
from barnabas.wire.headers import (
    RequestHeader,
    parse_request_header,
    parse_response_header,
    request_header,
    response_header,
)

SPOKEN = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
]
client_ids = st.none() | st.text(max_size=20)
correlation_ids = st.integers(-(2**31), 2**31 - 1)


@settings(deadline=None)
@given(st.sampled_from(SPOKEN), correlation_ids, client_ids)
def test_request_headers_are_kios(
    spoken: tuple[int, int], correlation_id: int, client_id: str | None
) -> None:
    api_key, version = spoken
    kind = HeaderV2 if APIS[api_key].is_flexible(version) else HeaderV1
    buffer = io.BytesIO()
    entity_writer(kind)(
        buffer,
        kind(
            request_api_key=i16(api_key),
            request_api_version=i16(version),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        ),
    )
    encoded = buffer.getvalue()
    assert request_header(api_key, version, correlation_id, client_id) == encoded
    header = parse_request_header(memoryview(encoded + b"body"))
    assert header == (api_key, version, correlation_id, client_id, len(encoded))
    for end in range(len(encoded)):
        with pytest.raises(DecodeError):
            parse_request_header(memoryview(encoded[:end]))


@settings(deadline=None)
@given(st.sampled_from(SPOKEN), correlation_ids)
def test_response_headers_are_kios(spoken: tuple[int, int], correlation_id: int) -> None:
    api_key, version = spoken
    flexible = APIS[api_key].is_flexible(version) and api_key != 18
    buffer = io.BytesIO()
    if flexible:
        entity_writer(ResponseV1)(buffer, ResponseV1(correlation_id=i32(correlation_id)))
    else:
        entity_writer(ResponseV0)(buffer, ResponseV0(correlation_id=i32(correlation_id)))
    encoded = buffer.getvalue()
    assert response_header(api_key, version, correlation_id) == encoded
    assert parse_response_header(api_key, version, encoded) == (correlation_id, len(encoded))
    for end in range(len(encoded)):
        with pytest.raises(DecodeError):
            parse_response_header(api_key, version, encoded[:end])


@pytest.mark.parametrize(
    ("api_key", "version"), [(18, 99), (18, -1), (0, 2), (4, 0), (999, 0), (-1, 3), (0, -32768)]
)
def test_what_is_not_spoken_can_still_be_answered(api_key: int, version: int) -> None:
    frame = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    frame += (77).to_bytes(4, "big")
    expected = RequestHeader(api_key, version, 77, None, -1)
    assert parse_request_header(memoryview(frame)) == expected
    assert parse_request_header(memoryview(frame + b"\xff" * 9)) == expected
    assert len(response_header(api_key, version, 77)) == 4


def header_v2_with_tags(tags: bytes) -> bytes:
    return bytes.fromhex("0012 0003 00000001 ffff") + tags


def test_tagged_fields_are_skipped() -> None:
    frame = header_v2_with_tags(b"\x02\x05\x03abc\x81\x01\x00") + b"body"
    assert parse_request_header(memoryview(frame)).body_at == len(frame) - 4


@pytest.mark.parametrize(
    "tags",
    [
        b"\x21" + b"\x00\x00" * 33,  # more than anyone sends
        b"\xff\xff\xff\xff\x0f",  # four thousand million of them
        b"\x01\x00\x04abc",  # longer than the frame
        b"\x01\x00\xff\xff\xff\xff\x0f",
        b"\x80\x80\x80\x80\x80\x00",  # a varint of six bytes
        b"\x80\x80\x80\x80\x10",  # a varint of 33 bits
    ],
)
def test_hostile_tagged_fields_are_refused(tags: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_request_header(memoryview(header_v2_with_tags(tags)))


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_do_worse_than_a_decode_error(frame: bytes) -> None:
    try:
        header = parse_request_header(memoryview(frame))
    except DecodeError:
        return
    assert -1 <= header.body_at <= len(frame)
