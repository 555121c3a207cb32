"""Frames cut from any sequence of chunks, and answers matched to their questions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.link import exchange as exchange_module
from barnabas.link.exchange import Exchange, FrameReader, Question
from barnabas.model.errors import DecodeError
from barnabas.wire.headers import parse_request_header, response_header

bodies = st.lists(st.binary(min_size=4, max_size=60), max_size=8)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@settings(deadline=None)
@given(bodies, st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_out_however_they_went_in(frames: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(framed(frame) for frame in frames)
    reader = FrameReader()
    found = []
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        found += [bytes(frame) for frame in reader.feed(stream[position : position + size])]
        position += size
        turn += 1
    assert found == frames
    assert reader.bytes_missing == 4


@settings(deadline=None)
@given(bodies, st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1))
def test_large_frames_are_written_where_they_belong(
    frames: list[bytes], sizes: list[tuple[int, bool]]
) -> None:
    stream = b"".join(framed(frame) for frame in frames)
    reader = FrameReader()
    found = []
    position = turn = 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(exchange_module, "_LARGE_BYTES", 20)
        while position < len(stream):
            size, by_room = sizes[turn % len(sizes)]
            room = reader.room if by_room else None
            if room is None:
                came = reader.feed(stream[position : position + size])
            else:
                size = min(size, len(room))
                room[:size] = stream[position : position + size]
                came = reader.filled(size)
            found += [bytes(frame) for frame in came]
            position += size
            turn += 1
    assert found == frames
    assert reader.bytes_missing == 4


def test_the_memory_of_a_large_frame_is_used_again_when_nobody_looks_at_it() -> None:
    reader, size = FrameReader(), 100_000
    first, second, third = (framed(bytes([number]) * size) for number in (1, 2, 3))
    assert reader.feed(first[:10]) == []
    (seen,) = reader.feed(first[10:])
    assert reader.feed(second[:10]) == []
    (other,) = reader.feed(second[10:])
    assert (bytes(seen), bytes(other)) == (first[4:], second[4:])
    memory = seen.obj, other.obj
    assert memory[0] is not memory[1]
    del memory
    kept = id(other.obj)
    del seen, other
    assert reader.feed(third[:10]) == []
    (last,) = reader.feed(third[10:])
    assert bytes(last) == third[4:]
    assert id(last.obj) == kept


def test_what_is_missing_of_a_frame_is_known() -> None:
    reader = FrameReader()
    assert reader.feed(b"\x00\x00") == []
    assert reader.bytes_missing == 2
    assert reader.feed(b"\x00\x0aabc") == []
    assert reader.bytes_missing == 7


@pytest.mark.parametrize("prefix", [b"HTTP", b"\x15\x03\x03\x00", b"\xff\xff\xff\xff", bytes(4)])
def test_a_length_no_broker_sends_is_refused_before_it_is_buffered(prefix: bytes) -> None:
    with pytest.raises(DecodeError, match="is it a Kafka listener"):
        FrameReader().feed(prefix)


def test_a_frame_may_be_as_long_as_allowed_and_no_longer() -> None:
    assert len(FrameReader(frame_bytes_max=8).feed(framed(bytes(8)))) == 1
    with pytest.raises(DecodeError):
        FrameReader(frame_bytes_max=8).feed(framed(bytes(9)))


def test_answers_are_matched_in_order() -> None:
    exchange = Exchange("me")
    first = b"".join(exchange.ask(12, 4, [b"one"]))
    second = b"".join(exchange.ask(18, 3, [b"two", memoryview(b"!")]))
    header = parse_request_header(memoryview(first)[4:])
    assert (header.api_key, header.correlation_id, header.client_id) == (12, 0, "me")
    assert first[4 + header.body_at :] == b"one"
    assert second.endswith(b"two!")
    assert exchange.open_questions == 2
    stream = framed(response_header(12, 4, 0) + b"1") + framed(response_header(18, 3, 1) + b"2")
    answers = exchange.receive(stream)
    assert [answer.question for answer in answers] == [Question(12, 4, 0), Question(18, 3, 1)]
    assert [bytes(answer.frame[answer.body_at :]) for answer in answers] == [b"1", b"2"]
    assert exchange.open_questions == 0


def test_an_answer_to_another_question_is_refused() -> None:
    exchange = Exchange(None)
    exchange.ask(12, 0, [])
    with pytest.raises(DecodeError, match="answers 7 where 0 was asked"):
        exchange.receive(framed(response_header(12, 0, 7)))


def test_an_answer_nobody_asked_for_is_refused() -> None:
    exchange = Exchange(None)
    exchange.ask(0, 3, [b"acks=0"], answered=False)
    with pytest.raises(DecodeError, match="nobody asked"):
        exchange.receive(framed(response_header(0, 3, 0)))
