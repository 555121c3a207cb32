"""Request and response headers, both ends.

A request names its API, version, correlation id and client; flexible versions add tagged fields.
A response says only which request it answers. Runs once for every frame, so it is coded by hand.
"""

import struct
from typing import Final, NamedTuple

from barnabas.model.errors import DecodeError
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.primitives import (
    INT16,
    INT32,
    MALFORMED,
    Readable,
    encode_string,
    skip_tagged_fields,
)

_KEY_VERSION_CORRELATION: Final = struct.Struct(">hhi")
_CLIENT_ID_AT: Final = 10
"""After key, version, correlation id and the two bytes of the client id's length."""

_FLEXIBLE: Final = {
    api.key << 16 | version: api.is_flexible(version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
}
"""Is it flexible, for every API and version that is spoken: one lookup for both questions."""


class RequestHeader(NamedTuple):
    """What stands before a request's body, and where the body begins.

    `body_at` is -1 when the API or the version is not spoken here: nothing after the
    correlation id was read then, because its form is not known, but an answer is possible.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def parse_request_header(frame: Readable) -> RequestHeader:
    """The header of a whole frame (without its length prefix)."""
    try:
        api_key, version, correlation_id = _KEY_VERSION_CORRELATION.unpack_from(frame)
        flexible = _FLEXIBLE.get(api_key << 16 | version) if version >= 0 else None
        if flexible is None:
            return RequestHeader(api_key, version, correlation_id, None, -1)
        (length,) = INT16.unpack_from(frame, 8)
        if length < 0:
            client_id, position = None, _CLIENT_ID_AT
        else:
            position = _CLIENT_ID_AT + length
            if position > len(frame):
                raise DecodeError("the client id is longer than its request")
            client_id = str(frame[_CLIENT_ID_AT:position], "utf-8")
        if flexible:
            if frame[position] == 0:
                position += 1
            else:
                position = skip_tagged_fields(frame, position)
    except MALFORMED as problem:
        raise DecodeError(f"malformed request header: {problem}") from problem
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header before a response's body.

    ApiVersions never has tagged fields here, at any version: a client can not know yet whether
    the broker would send them.
    """
    if api_key != API_VERSIONS and _FLEXIBLE.get(api_key << 16 | version):
        return INT32.pack(correlation_id) + b"\x00"
    return INT32.pack(correlation_id)


def request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None = None
) -> bytes:
    """The header before a request's body. The client id has the old form at every version."""
    encoded = _KEY_VERSION_CORRELATION.pack(api_key, version, correlation_id)
    encoded += encode_string(client_id, flexible=False)
    return encoded + b"\x00" if APIS[api_key].is_flexible(version) else encoded


def parse_response_header(api_key: int, version: int, frame: Readable) -> tuple[int, int]:
    """The correlation id of a response, and where its body begins."""
    try:
        (correlation_id,) = INT32.unpack_from(frame)
        if api_key == API_VERSIONS or not APIS[api_key].is_flexible(version):
            return correlation_id, 4
        return correlation_id, skip_tagged_fields(frame, 4)
    except MALFORMED as problem:
        raise DecodeError(f"malformed response header: {problem}") from problem
