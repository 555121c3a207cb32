"""Every API at every version: up to the newest form and down again without a loss.

Also: bytes cut short, bytes changed, counts of thousands of millions, unknown tagged fields.
"""

import io
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, get_args

import pytest
from kio.serial import entity_reader, entity_writer

from barnabas.model import limits
from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.wire.apis import APIS, Api
from barnabas.wire.messages import (
    Side,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    newest_type,
    version_type,
)
from barnabas.wire.reshape import RESHAPES, element_type
from barnabas.wire.tolerant import read_message

MakeMessage = Callable[[Any, random.Random], Any]

BY_KIO = [api for api in APIS.values() if api.name not in ("produce", "fetch")]
every_api = pytest.mark.parametrize("api", BY_KIO, ids=lambda api: api.name)
SIDES: tuple[Side, Side] = ("request", "response")
DECODE: dict[Side, Callable[[int, int, bytes], Any]] = {
    "request": decode_request,
    "response": decode_response,
}
ENCODE: dict[Side, Callable[[int, int, Any], bytes]] = {
    "request": encode_request,
    "response": encode_response,
}


def versions(api: Api) -> range:
    return range(api.min_version, api.max_version + 1)


def written_by_kio(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


@every_api
def test_kio_and_we_read_the_same(api: Api, make_message: MakeMessage) -> None:
    rng = random.Random(api.key)
    for version in versions(api):
        for side in SIDES:
            kind = version_type(api.key, version, side)
            for _ in range(3):
                message = make_message(kind, rng)
                encoded = written_by_kio(message)
                assert read_message(kind, encoded) == message
                assert entity_reader(kind)(encoded, 0) == (message, len(encoded))


@every_api
def test_up_to_the_newest_and_down_again_loses_nothing(api: Api, make_message: MakeMessage) -> None:
    rng = random.Random(api.key)
    for version in versions(api):
        for side in SIDES:
            for _ in range(3):
                message = make_message(version_type(api.key, version, side), rng)
                encoded = written_by_kio(message)
                newest = DECODE[side](api.key, version, encoded)
                assert type(newest) is newest_type(api.key, side)
                assert ENCODE[side](api.key, version, newest) == encoded
                assert ENCODE[side](api.key, version, message) == encoded


@every_api
def test_messages_cut_short_are_refused(api: Api, make_message: MakeMessage) -> None:
    rng = random.Random(api.key)
    for version in versions(api):
        for side in SIDES:
            encoded = written_by_kio(make_message(version_type(api.key, version, side), rng))
            for end in {*range(min(len(encoded), 40)), *range(len(encoded) - 10, len(encoded))}:
                if 0 <= end < len(encoded):
                    with pytest.raises(DecodeError):
                        DECODE[side](api.key, version, encoded[:end])


@every_api
def test_a_huge_count_anywhere_costs_nothing(api: Api, make_message: MakeMessage) -> None:
    """kio's own reader aborts the process on some of these."""
    rng = random.Random(api.key)
    for version in versions(api):
        huge = b"\xff\xff\xff\xff\x0f" if api.is_flexible(version) else b"\x7f\xff\xff\xff"
        encoded = written_by_kio(make_message(version_type(api.key, version, "request"), rng))
        for position in range(min(len(encoded), 60)):
            hostile = encoded[:position] + huge + encoded[position + 1 :]
            survives(api, version, hostile)
        survives(api, version, huge * 8)


@every_api
def test_changed_bytes_do_no_worse_than_a_decode_error(api: Api, make_message: MakeMessage) -> None:
    rng = random.Random(api.key)
    for version in versions(api):
        encoded = bytearray(
            written_by_kio(make_message(version_type(api.key, version, "request"), rng))
        )
        for _ in range(20):
            if encoded:
                encoded[rng.randrange(len(encoded))] = rng.randrange(256)
            survives(api, version, bytes(encoded))


def survives(api: Api, version: int, body: bytes) -> None:
    """Any other exception, or an abort, fails the test."""
    with suppress(DecodeError):
        decode_request(api.key, version, body)


def nested_fields(kind: Any, prefix: str = "") -> set[str]:
    """The names of all fields of an entity and of the entities within, with dots."""
    names = set()
    for field in fields(kind):
        names.add(prefix + field.name)
        for inner in entities_in(field.type):
            names |= nested_fields(inner, f"{prefix}{field.name}.")
    return names


def entities_in(annotation: Any) -> list[Any]:
    if is_dataclass(annotation):
        return [annotation]
    return [entity for part in get_args(annotation) for entity in entities_in(part)]


@every_api
def test_no_field_of_an_old_version_is_forgotten(api: Api) -> None:
    """What the newest form lacks is told in another form, and a reshape knows which."""
    for side in SIDES:
        newest = nested_fields(newest_type(api.key, side))
        old_only = set()
        for version in versions(api):
            lost = nested_fields(version_type(api.key, version, side)) - newest
            old_only |= {name for name in lost if name.rpartition(".")[0] not in lost}
        reshape = RESHAPES.get((api.key, side))
        assert old_only == (reshape.fields if reshape else set())


def test_bytes_after_the_message_are_let_pass_as_in_kafka() -> None:
    request = decode_request(18, 0, b"whatever follows")
    assert request == newest_type(18, "request")(
        client_software_name="", client_software_version=""
    )


def test_any_kind_of_buffer_is_taken() -> None:
    body = encode_request(10, 4, decode_request(10, 4, b"\x00\x02\x02g\x00"))
    for buffer in (body, bytearray(body), memoryview(bytearray(body))):
        assert decode_request(10, 4, buffer).coordinator_keys == ("g",)


def test_a_request_too_large_for_what_it_is_is_refused_unread() -> None:
    with pytest.raises(DecodeError):
        decode_request(18, 0, bytes(limits.MESSAGE_BYTES_MAX + 1))


def test_unknown_tagged_fields_are_skipped_and_not_kept() -> None:
    plain = decode_request(18, 3, b"\x05name\x04ver\x00")
    tagged = decode_request(18, 3, b"\x05name\x04ver\x02\x07\x03abc\x8f\x01\x00")
    assert plain == tagged
    assert (plain.client_software_name, plain.client_software_version) == ("name", "ver")
    assert encode_request(18, 3, tagged) == b"\x05name\x04ver\x00"


@pytest.mark.parametrize(
    "tags", [b"\x21" + b"\x63\x00" * 33, b"\x01\x63\x05abc", b"\xff\xff\xff\xff\x7f", b"\x01\x63"]
)
def test_hostile_tagged_sections_are_refused(tags: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_request(18, 3, b"\x05name\x04ver" + tags)


def test_a_known_tagged_field_must_have_the_size_it_claims() -> None:
    # ApiVersions v3 response: supported features (tag 0), an empty array, said to be two bytes.
    body = b"\x00\x00\x01\x00\x00\x00\x00\x01\x00\x02\x01\x00"
    with pytest.raises(DecodeError):
        decode_response(18, 3, body)


def test_an_error_code_from_the_future_is_an_unknown_error() -> None:
    response = decode_response(12, 0, (9999).to_bytes(2, "big"))
    assert response.error_code is ErrorCode.unknown_server_error


def test_durations_and_moments_beyond_pythons_are_taken() -> None:
    authenticated = b"\x00\x00\x00\x01" + (2**63 - 1).to_bytes(8, "big") + b"\x00"
    assert decode_response(36, 2, authenticated).session_lifetime > timedelta(days=999_999)
    renewed = b"\x00\x00" + (2**63 - 1).to_bytes(8, "big") + b"\x00\x00\x00\x00\x00"
    assert decode_response(39, 2, renewed).expiry_timestamp.year == 9999


def test_negative_timeouts_are_legal() -> None:
    request = decode_request(19, 2, b"\x00\x00\x00\x00\xff\xff\xff\xff\x00")
    assert request.timeout == timedelta(milliseconds=-1)


def test_null_where_null_is_not_allowed_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_request(3, 0, b"\xff\xff\xff\xff")
    with pytest.raises(DecodeError):
        decode_request(12, 0, b"\xff\xff\x00\x00\x00\x00\x00\x00")
    assert decode_request(3, 1, b"\xff\xff\xff\xff").topics is None


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_request(10, 0, b"\x00\x02\xff\xfe")


def test_version_zero_of_metadata_asks_for_all_topics_by_naming_none() -> None:
    assert decode_request(3, 0, bytes(4)).topics is None
    assert decode_request(3, 1, bytes(4)).topics == ()


def test_one_coordinator_is_told_flat_to_old_clients() -> None:
    response_type = newest_type(10, "response")
    found = element_type(response_type, "coordinators")(
        key="g", node_id=3, host="h", port=9, error_code=ErrorCode.none, error_message=None
    )
    response = response_type(throttle_time=timedelta(0), coordinators=(found,))
    body = encode_response(10, 0, response)
    assert body == b"\x00\x00\x00\x00\x00\x03\x00\x01h\x00\x00\x00\x09"
    assert decode_response(10, 0, body).coordinators == (replace(found, key="", error_message=""),)


def test_the_error_of_the_one_member_that_leaves_is_the_answer_to_old_clients() -> None:
    response_type = newest_type(13, "response")
    member = element_type(response_type, "members")(
        member_id="m", group_instance_id=None, error_code=ErrorCode.unknown_member_id
    )
    response = response_type(
        throttle_time=timedelta(0), error_code=ErrorCode.none, members=(member,)
    )
    assert encode_response(13, 0, response) == int(ErrorCode.unknown_member_id).to_bytes(2, "big")


def test_a_name_that_is_null_is_empty_where_null_is_not_allowed() -> None:
    join = newest_type(11, "response")(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        protocol_name=None,
        leader="l",
        member_id="m",
        members=[],
    )
    assert decode_response(11, 0, encode_response(11, 0, join)).protocol_name == ""
    assert decode_response(11, 9, encode_response(11, 9, join)).protocol_name is None
