"""Frames come out as they were sent, however they were cut, and memory follows what arrived."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.errors import DecodeError
from barnabas.net.inbox import Inbox
from barnabas.net.limits import NetLimits

SMALL = NetLimits(
    frame_bytes_min=1,
    frame_bytes_max=4096,
    receive_buffer_bytes=32,
    receive_growth_bytes_max=64,
    receive_busy_bytes_max=128,
)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def deliver(inbox: Inbox, data: bytes) -> list[bytes]:
    """As a transport does: fill what is offered, again and again, cutting frames each time."""
    frames = []
    while data:
        room = inbox.room() if inbox.end else inbox.buffer
        assert len(room) > 0
        taken = min(len(room), len(data))
        memoryview(room)[:taken] = data[:taken]
        data = data[taken:]
        inbox.end += taken
        inbox.received += taken
        while (frame := inbox.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


@given(
    payloads=st.lists(st.binary(min_size=1, max_size=400), max_size=12),
    cuts=st.lists(st.integers(min_value=1, max_value=300), max_size=40),
)
def test_any_cutting_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    inbox = Inbox(SMALL)
    stream = b"".join(map(framed, payloads))
    frames: list[bytes] = []
    for cut in cuts:
        frames += deliver(inbox, stream[:cut])
        stream = stream[cut:]
        assert len(inbox.buffer) <= max(32, inbox.received + 64)
    frames += deliver(inbox, stream)
    assert frames == payloads
    assert not inbox.partial


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_pair_of_frames_split_anywhere(cut: int) -> None:
    stream = framed(b"first" * 5) + framed(b"second" * 4)
    inbox = Inbox(SMALL)
    assert deliver(inbox, stream[:cut]) + deliver(inbox, stream[cut:]) == [
        b"first" * 5,
        b"second" * 4,
    ]


def test_a_claim_alone_buys_no_memory() -> None:
    inbox = Inbox(SMALL)
    deliver(inbox, struct.pack(">i", 4096) + bytes(28))
    assert len(inbox.buffer) == 32
    deliver(inbox, bytes(1))
    assert len(inbox.buffer) == 64
    deliver(inbox, bytes(200))
    assert len(inbox.buffer) <= 233 + 64


def test_growth_stops_at_the_end_of_the_frame() -> None:
    inbox = Inbox(SMALL)
    assert deliver(inbox, framed(bytes(500))) == [bytes(500)]
    assert len(inbox.buffer) == max(504, SMALL.receive_busy_bytes_max)


def test_a_grown_buffer_serves_the_following_frames_and_is_given_back_when_quiet() -> None:
    inbox = Inbox(NetLimits())
    payload = bytes(1_000_000)
    deliver(inbox, framed(payload))
    grown = inbox.buffer
    for _ in range(3):
        assert deliver(inbox, framed(payload)) == [payload]
        assert inbox.buffer is grown
    deliver(inbox, b"\0")
    inbox.shrink()
    assert inbox.buffer is grown, "a begun frame must not be lost"
    deliver(inbox, framed(payload)[1:])
    inbox.shrink()
    assert len(inbox.buffer) == NetLimits().receive_buffer_bytes


def test_large_frames_start_at_the_front() -> None:
    """A large frame is read to its own end only, so that the next one is never moved."""
    inbox = Inbox(NetLimits())
    deliver(inbox, framed(bytes(2_000_000)))
    stream = framed(bytes(1_000_000)) * 2
    deliver(inbox, stream[:900_000])
    assert len(inbox.room()) == 1_000_004 - 900_000
    deliver(inbox, stream[900_000:1_000_004])
    assert (inbox.start, inbox.end) == (0, 0)


def test_frames_can_be_patched_in_place() -> None:
    inbox = Inbox(SMALL)
    inbox.buffer[:7] = framed(b"abc")
    inbox.end = 7
    frame = inbox.next_frame()
    assert frame is not None
    assert not frame.readonly
    frame[0:1] = b"z"
    assert bytes(frame) == b"zbc"


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 4097, 2**31 - 1, 0x47455420])
def test_an_absurd_size_is_refused_before_anything_is_buffered_for_it(size: int) -> None:
    inbox = Inbox(SMALL)
    with pytest.raises(DecodeError, match=str(size)):
        deliver(inbox, struct.pack(">i", size))
    assert len(inbox.buffer) == 32


def test_bytes_delivered_in_spite_of_a_pause_find_room() -> None:
    """Nothing is cut meanwhile: complete frames pile up, and the buffer grows by what arrives."""
    inbox = Inbox(SMALL)
    stream = framed(b"x" * 10) * 40
    for at in range(0, len(stream), 16):
        piece = stream[at : at + 16]
        while piece:
            room = inbox.room()
            taken = min(len(room), len(piece))
            room[:taken] = piece[:taken]
            piece = piece[taken:]
            inbox.end += taken
            inbox.received += taken
    count = 0
    while inbox.next_frame() is not None:
        count += 1
    assert count == 40
