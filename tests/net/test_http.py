"""Heads of HTTP requests, good and bad."""

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model import limits
from barnabas.net.http import Answered, Asked, BadRequestError, encode_answer, parse_head

PROBE = b"GET /health/ready?verbose HTTP/1.1\r\nHost: broker:9644\r\nUser-Agent: kube-probe\r\n\r\n"


def outcome(received: bytes) -> Asked | HTTPStatus | None:
    try:
        return parse_head(received)
    except BadRequestError as error:
        return error.status


def test_a_probe_is_understood() -> None:
    assert parse_head(PROBE) == Asked("GET", "/health/ready")
    assert parse_head(PROBE + b"more of something") == Asked("GET", "/health/ready")
    assert parse_head(b"HEAD / HTTP/1.0\r\n\r\n") == Asked("HEAD", "/")
    for size in range(len(PROBE)):
        assert parse_head(PROBE[:size]) is None, size


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET",
        b"GET /",
        b"get / HTTP/1.1",
        b"GET / HTTP/2.0",
        b"GET  / HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET /\x00 HTTP/1.1",
        b"GET /" + b"a" * 3000 + b" HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"GET / HTTP/1.1\r\nno field",
        b"GET / HTTP/1.1\r\n folded: no",
        b"GET / HTTP/1.1\r\nX: \x00",
        b"GET / HTTP/1.1\nX: y",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"\x00\x00\x00\x10\x00\x12\x00\x03",
    ],
)
def test_what_is_no_request_is_refused(head: bytes) -> None:
    assert outcome(head + b"\r\n\r\n") is HTTPStatus.BAD_REQUEST


def test_a_head_has_an_end() -> None:
    too_large = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    assert outcome(b"a" * (limits.HEALTH_HEAD_BYTES_MAX - 1)) is None
    assert outcome(b"a" * limits.HEALTH_HEAD_BYTES_MAX) is too_large
    long = b"GET / HTTP/1.1\r\nX: " + b"y" * limits.HEALTH_HEAD_BYTES_MAX + b"\r\n\r\n"
    assert outcome(long) is too_large


@given(st.binary(max_size=300), st.booleans())
def test_whatever_comes_is_understood_refused_or_waited_for(data: bytes, ends: bool) -> None:
    received = data + b"\r\n\r\n" if ends else data
    found = outcome(received)
    assert found is None or isinstance(found, Asked | HTTPStatus)
    if ends:
        assert found is not None, "nobody is waited for once the head is there"


@given(st.from_regex(rb"(GET|HEAD|PUT) /[a-z/?=]{0,40} HTTP/1\.[01]\r\n(A: [ -~]{0,20}\r\n)?\r\n",
                     fullmatch=True))  # fmt: skip
def test_every_plain_request_is_understood(head: bytes) -> None:
    found = parse_head(head)
    assert found is not None
    assert head.startswith(f"{found.method} {found.path}".encode())


def test_answers() -> None:
    head, _, body = encode_answer(Answered(HTTPStatus.OK, b"{}")).partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
    assert b"Content-Length: 2" in head
    assert body == b"{}"
    bare = encode_answer(Answered(HTTPStatus.OK, b"{}"), with_body=False)
    assert bare == head + b"\r\n\r\n"
