"""Frames no client would send: each is answered or its connection is closed, and nobody else cares.

The `broker` fixture holds every test to that: the process lives, a bystander is served as before,
and nothing is logged as a fault of our own.
"""

import struct
from typing import Final

import pytest
from tests.chaos.broker_process import BrokerProcess
from tests.hostile.forms import (
    CORRELATION_ID,
    Form,
    Stage,
    form_of,
    newest_forms,
    other_forms,
    served_forms,
)
from tests.hostile.stranger import Stranger, framed, outcome

from barnabas.model.errors import ErrorCode
from barnabas.wire.apis import APIS
from barnabas.wire.headers import request_header
from barnabas.wire.messages import decode_response
from barnabas.wire.primitives import uvarint

_INT_MAX: Final = 2**31 - 1
_METADATA: Final = 3
_API_VERSIONS: Final = 18
_MEBIBYTE: Final = 1024 * 1024


def _assert_answered(form: Form, answers: list[bytes] | None, frame: bytes) -> None:
    shown = f"{form}: {frame.hex()}"
    assert answers is not None, f"hung up on {shown}"
    assert len(answers) == 1, shown
    assert answers[0][:4] == CORRELATION_ID.to_bytes(4, "big"), shown


def _assert_answered_or_closed(form: Form, answers: list[bytes] | None, frame: bytes) -> None:
    if answers:
        _assert_answered(form, answers, frame)


def test_every_form_is_answered(broker: BrokerProcess, stage: Stage) -> None:
    """The forms are right: what the other tests change is what makes them wrong."""
    with Stranger(broker.port) as stranger:
        for form in served_forms(stage):
            _assert_answered(form, stranger.outcome(framed(form.frame)), form.frame)


@pytest.mark.parametrize(
    "size", [_INT_MAX, 100 * _MEBIBYTE + 1, -1, -_INT_MAX, 0, 1, 2, 3, 4, 5, 6, 7]
)
def test_absurd_sizes_close_the_connection_at_once(broker: BrokerProcess, size: int) -> None:
    broker.reset_peak()
    before = broker.status_kib("VmRSS")
    with Stranger(broker.port) as stranger:
        stranger.send(struct.pack(">i", size))
        assert stranger.socket.recv(1) == b""
    assert broker.status_kib("VmHWM") - before < 4096


def test_a_size_that_is_allowed_costs_nothing_before_its_bytes_come(broker: BrokerProcess) -> None:
    broker.reset_peak()
    before = broker.status_kib("VmRSS")
    crowd = [Stranger(broker.port) for _ in range(50)]
    for stranger in crowd:
        stranger.send(struct.pack(">i", 100 * _MEBIBYTE) + b"\0\0\0\0")
    with broker.link() as link:
        link.call(_API_VERSIONS, 0, _api_versions())
    grown = broker.status_kib("VmHWM") - before
    for stranger in crowd:
        stranger.close()
    assert grown < 8192


def _api_versions() -> object:
    from barnabas.wire.messages import newest_type

    return newest_type(_API_VERSIONS, "request")(
        client_software_name="tests", client_software_version="1"
    )


def test_requests_cut_at_every_byte(broker: BrokerProcess, stage: Stage) -> None:
    """The frame says its true length, but the request in it is not whole."""
    for form in newest_forms(stage):
        for size in range(8, len(form.frame)):
            cut = form.frame[:size]
            _assert_answered_or_closed(form, outcome(broker.port, framed(cut)), cut)


def test_connections_cut_at_every_byte(broker: BrokerProcess, stage: Stage) -> None:
    """The frame announces more than ever comes."""
    for form in newest_forms(stage):
        whole = framed(form.frame)
        crowd = [Stranger(broker.port) for _ in range(1, len(whole))]
        for size, stranger in enumerate(crowd, 1):
            stranger.send(whole[:size])
        for stranger in crowd:
            stranger.close()


def test_a_mebibyte_of_bytes_behind_a_request(broker: BrokerProcess, stage: Stage) -> None:
    """As in Kafka, bytes behind a request are let pass."""
    for form in newest_forms(stage):
        frame = form.frame + bytes(_MEBIBYTE)
        _assert_answered_or_closed(form, outcome(broker.port, framed(frame)), frame[:99])


@pytest.mark.parametrize("value", [_INT_MAX, _INT_MAX - 1, 2**30, 100_000_000])
def test_arrays_that_claim_to_be_huge(broker: BrokerProcess, stage: Stage, value: int) -> None:
    """In every array of every API and version; none costs more than the bytes it came in."""
    broker.reset_peak()
    before = broker.status_kib("VmRSS")
    for form in served_forms(stage):
        for length in form.lengths:
            if length.kind == "array":
                frame = form.with_length(length, value)
                assert outcome(broker.port, framed(frame)) is None, f"{form}: {frame.hex()}"
    assert broker.status_kib("VmHWM") - before < 16 * 1024


@pytest.mark.parametrize("value", [-1, -2, 0x7FFF, -0x8000])
def test_lengths_that_lie(broker: BrokerProcess, stage: Stage, value: int) -> None:
    """Null where there is none, more than there is, and less than nothing, in every length."""
    for form in newest_forms(stage):
        for length in form.lengths:
            frame = form.with_length(length, value)
            _assert_answered_or_closed(form, outcome(broker.port, framed(frame)), frame)


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 1000, 0x7FFF])
def test_unknown_apis_close_the_connection(broker: BrokerProcess, key: int) -> None:
    frame = struct.pack(">hhi", key, 0, CORRELATION_ID) + bytes(32)
    assert outcome(broker.port, framed(frame)) is None


def test_apis_that_are_not_served_close_the_connection(broker: BrokerProcess, stage: Stage) -> None:
    for form in other_forms(stage):
        assert outcome(broker.port, framed(form.frame)) is None, form


def test_versions_that_are_not_spoken(broker: BrokerProcess, stage: Stage) -> None:
    """The connection closes; only ApiVersions tells what it speaks instead (KIP-511)."""
    for form in newest_forms(stage):
        api = form.api
        for version in (-1, api.max_version + 1, 0x7FFF, -0x8000):
            frame = struct.pack(">hh", api.key, version) + form.frame[4:]
            answers = outcome(broker.port, framed(frame))
            if api.key != _API_VERSIONS:
                assert answers is None, f"{api.name} v{version}"
                continue
            _assert_answered(form, answers, frame)
            told = decode_response(_API_VERSIONS, 0, (answers or [b""])[0][4:])
            assert told.error_code is ErrorCode.unsupported_version


def _with_tags(form: Form, tags: bytes) -> bytes:
    """The frame with another tagged section at its very end."""
    return form.frame[:-1] + tags


@pytest.mark.parametrize("count", [33, 30_000, 2**32 - 1])
def test_thousands_of_tagged_fields(broker: BrokerProcess, stage: Stage, count: int) -> None:
    tags = uvarint(count) + b"".join(uvarint(tag) + b"\x00" for tag in range(100, 30_100))
    for form in newest_forms(stage):
        if not form.api.is_flexible(form.version):
            continue  # It has no tags; bytes behind a message are stepped over, as in Kafka.
        answers = outcome(broker.port, framed(_with_tags(form, tags)))
        assert answers is None, form
    header = request_header(_METADATA, 12, CORRELATION_ID, "hostile")[:-1]
    assert outcome(broker.port, framed(header + tags + bytes(9))) is None


def test_a_few_unknown_tagged_fields_are_let_pass(broker: BrokerProcess, stage: Stage) -> None:
    tags = b"\x02" + uvarint(200) + b"\x02hi" + uvarint(201) + b"\x00"
    with Stranger(broker.port) as stranger:
        for form in newest_forms(stage):
            frame = _with_tags(form, tags)
            _assert_answered(form, stranger.outcome(framed(frame)), frame)


@pytest.mark.parametrize(
    "varint", [b"\x80" * 4 + b"\x10", b"\xff" * 5, b"\x80" * 9 + b"\x01", b"\xff" * 40, b"\x80" * 5]
)
def test_varints_without_end(broker: BrokerProcess, stage: Stage, varint: bytes) -> None:
    for form in newest_forms(stage):
        for length in form.lengths:
            frame = form.frame[: length.at] + varint + form.frame[length.at + length.size :]
            assert outcome(broker.port, framed(frame)) is None, f"{form}: {frame.hex()}"


@pytest.mark.parametrize("text", [b"\xff\xfe", b"\xc3(", b"\xed\xa0\x80", b"\xf8\x88\x80\x80"])
def test_text_that_is_not_utf_8(broker: BrokerProcess, stage: Stage, text: bytes) -> None:
    for form in newest_forms(stage):
        for length in form.lengths:
            if length.kind != "string" or form.frame[length.at] == 0:
                continue
            end = length.at + form.frame[length.at]
            patched = uvarint(len(text) + 1) + text
            frame = form.frame[: length.at] + patched + form.frame[end:]
            assert outcome(broker.port, framed(frame)) is None, f"{form}: {frame.hex()}"
    header = request_header(_METADATA, 1, CORRELATION_ID)[:8]
    frame = header + struct.pack(">h", len(text)) + text + bytes(8)
    assert outcome(broker.port, framed(frame)) is None


def test_bytes_of_other_protocols(broker: BrokerProcess) -> None:
    greetings = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00" * 4096,
        b"\xff" * 4096,
    )
    for greeting in greetings:
        with Stranger(broker.port) as stranger:
            stranger.send(greeting)
            assert stranger.socket.recv(1) == b"", greeting


def test_a_message_without_records_may_not_be_as_large_as_one_with(broker: BrokerProcess) -> None:
    """Its fields would become objects many times the size of their bytes."""
    broker.reset_peak()
    before = broker.status_kib("VmRSS")
    form = form_of(_METADATA, 1, Stage())
    count = 20 * _MEBIBYTE // 3
    body = struct.pack(">i", count) + b"\x00\x01a" * count
    assert outcome(broker.port, framed(form.frame[: form.body_at] + body)) is None
    assert broker.status_kib("VmHWM") - before < 100 * 1024


def test_every_served_api_was_asked(stage: Stage) -> None:
    asked = {(form.api.key, form.version) for form in served_forms(stage) + other_forms(stage)}
    every = {(k, v) for k, api in APIS.items() for v in range(api.min_version, api.max_version + 1)}
    assert asked == every
