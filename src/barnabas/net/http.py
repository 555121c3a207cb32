"""As much of HTTP as it takes to be asked how a broker is: heads in, short answers out. No I/O."""

import re
from http import HTTPStatus
from typing import Final, NamedTuple

from barnabas.model import limits

_END: Final = b"\r\n\r\n"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) ([!-~]{1,2048}) HTTP/1\.[01]")
_FIELD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*")


class BadRequestError(Exception):
    """It is no request that can be answered: `status` says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Asked(NamedTuple):
    """What somebody wants to know."""

    method: str
    path: str
    """Without a query."""


class Answered(NamedTuple):
    """A status and what it is about, as JSON."""

    status: HTTPStatus
    body: bytes


def parse_head(received: bytes | bytearray) -> Asked | None:
    """What is asked for, once the whole head is there; None: it is not yet. What follows the head
    is of no interest: every connection is for one request."""
    end = received.find(_END)
    if end < 0:
        if len(received) >= limits.HEALTH_HEAD_BYTES_MAX:
            raise BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return None
    if end > limits.HEALTH_HEAD_BYTES_MAX:
        raise BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    line, *fields = bytes(received[:end]).split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(line)
    if found is None or not all(_FIELD.fullmatch(each) for each in fields):
        raise BadRequestError(HTTPStatus.BAD_REQUEST)
    path, _, _ = found[2].decode("ascii").partition("?")
    return Asked(found[1].decode("ascii"), path)


def encode_answer(answered: Answered, *, with_body: bool = True) -> bytes:
    """The bytes of it. The connection ends with them."""
    status = answered.status
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(answered.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    head = "\r\n".join(lines).encode("ascii") + _END
    return head + answered.body if with_body else head
