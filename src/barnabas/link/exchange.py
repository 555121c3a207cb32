"""The part of a connection that needs no socket: what to send, and what the bytes received mean.

A broker answers one connection's requests in the order they came, so the questions still open
are a queue, and the correlation id is only a check.
"""

import sys
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.model import limits
from barnabas.model.check import require
from barnabas.model.errors import DecodeError
from barnabas.wire.headers import parse_response_header, request_header
from barnabas.wire.primitives import INT32

Piece = bytes | bytearray | memoryview

_LENGTH_BYTES: Final = 4
_CORRELATION_IDS: Final = 2**31
_LARGE_BYTES: Final = 32 * 1024
"""From here on a frame gets memory of its own, so as to be copied about as little as possible."""
_KEPT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Up to here that memory is kept for the next large frame: fresh memory costs a page fault for
each 4 KiB of it, which is more than filling it costs."""


class FrameReader:
    """Cuts a stream of bytes into frames, each without its length prefix."""

    def __init__(self, frame_bytes_max: int = limits.FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pending = bytearray()
        self._wanted = _LENGTH_BYTES
        self._large: memoryview | None = None
        self._filled = 0
        self._kept = bytearray()

    @property
    def bytes_missing(self) -> int:
        """How many bytes the frame that has begun still lacks."""
        if self._large is not None:
            return len(self._large) - self._filled
        return self._wanted - len(self._pending)

    @property
    def room(self) -> memoryview | None:
        """Where the rest of a large frame belongs, for a socket to write to; see `filled`."""
        return None if self._large is None else self._large[self._filled :]

    def filled(self, count: int) -> list[memoryview]:
        """So many bytes were written to `room`; the frame, if it is complete with them."""
        require(self._large is not None, "only a large frame has room")
        self._filled += count
        if self._large is None or self._filled < len(self._large):
            return []
        frame, self._large, self._filled = self._large, None, 0
        return [frame.toreadonly()]

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames that are complete with `data`; what is left over waits for more.

        Frames that lie whole in `data` are views of it. DecodeError for a length no broker
        sends, which mostly means that the peer is no broker.
        """
        frames: list[memoryview] = []
        if (room := self.room) is not None:
            room[: len(data)] = data[: len(room)]
            frames = self.filled(min(len(data), len(room)))
            data = data[len(room) :]
        if self._pending:
            self._pending += data
            if len(self._pending) < self._wanted:
                return frames
            data = bytes(self._pending)
            self._pending.clear()
        view = memoryview(data)
        position = 0
        while True:
            self._wanted = _LENGTH_BYTES
            if len(view) - position >= _LENGTH_BYTES:
                self._wanted += self._frame_length(view, position)
            end = position + self._wanted
            if end > len(view) or self._wanted == _LENGTH_BYTES:
                break
            frames.append(view[position + _LENGTH_BYTES : end])
            position = end
        self._keep(view[position:])
        return frames

    def _keep(self, rest: memoryview) -> None:
        """The beginning of a frame. A large one gets its own memory, so as to be copied once."""
        if self._wanted < _LARGE_BYTES:
            self._pending += rest
            return
        self._large = self._memory(self._wanted - _LENGTH_BYTES)
        self._wanted = _LENGTH_BYTES
        self._filled = len(rest) - _LENGTH_BYTES
        self._large[: self._filled] = rest[_LENGTH_BYTES:]

    def _memory(self, length: int) -> memoryview:
        """Room for a large frame: that of the last one, if nobody looks at it any more. (A view,
        and every slice of it, holds a reference to its bytearray.)"""
        kept = self._kept
        if len(kept) < length or sys.getrefcount(kept) != _UNSEEN:
            kept = bytearray(length)
            if length <= _KEPT_BYTES_MAX:
                self._kept = kept
        return memoryview(kept)[:length]

    def _frame_length(self, view: memoryview, position: int) -> int:
        length: int = INT32.unpack_from(view, position)[0]
        if not _LENGTH_BYTES <= length <= self._frame_bytes_max:
            raise DecodeError(
                f"the peer announces an answer of {length} bytes: is it a Kafka listener, "
                "and is it one without TLS?"
            )
        return length


_UNSEEN: Final = 3
"""References to the kept memory when there is no view of it: the reader's, that of the method that
looks, and that of the counting itself. Were there ever more, it would just not be used again."""


class Question(NamedTuple):
    """A request on its way, as far as it matters for reading the answer."""

    api_key: int
    version: int
    correlation_id: int


class Answer(NamedTuple):
    """A response's frame, and where its body begins."""

    question: Question
    frame: memoryview
    body_at: int


class Exchange:
    """Questions and answers of one connection, without the connection."""

    def __init__(
        self, client_id: str | None, frame_bytes_max: int = limits.FRAME_BYTES_MAX
    ) -> None:
        self._client_id = client_id
        self._frames = FrameReader(frame_bytes_max)
        self._open: deque[Question] = deque()
        self._next_correlation_id = 0

    @property
    def open_questions(self) -> int:
        """How many answers are still to come."""
        return len(self._open)

    @property
    def bytes_missing(self) -> int:
        """How many bytes the answer that has begun still lacks."""
        return self._frames.bytes_missing

    def ask(
        self, api_key: int, version: int, body: Sequence[Piece], *, answered: bool = True
    ) -> list[Piece]:
        """The pieces to send for a request; its answer is then the next one that is expected.

        A Produce with acks=0 is not `answered`.
        """
        question = Question(api_key, version, self._next_correlation_id)
        self._next_correlation_id = (self._next_correlation_id + 1) % _CORRELATION_IDS
        header = request_header(api_key, version, question.correlation_id, self._client_id)
        length = len(header) + sum(len(piece) for piece in body)
        if answered:
            self._open.append(question)
        return [INT32.pack(length) + header, *body]

    @property
    def room(self) -> memoryview | None:
        """Where the rest of a large answer belongs, for a socket to write to; see `filled`."""
        return self._frames.room

    def filled(self, count: int) -> list[Answer]:
        """So many bytes were written to `room`; the answer, if it is complete with them."""
        return [self._match(frame) for frame in self._frames.filled(count)]

    def receive(self, data: bytes) -> list[Answer]:
        """The answers that are complete with `data`, in the order of their questions."""
        return [self._match(frame) for frame in self._frames.feed(data)]

    def _match(self, frame: memoryview) -> Answer:
        if not self._open:
            raise DecodeError("the broker answers what nobody asked")
        question = self._open.popleft()
        correlation_id, body_at = parse_response_header(question.api_key, question.version, frame)
        if correlation_id != question.correlation_id:
            raise DecodeError(
                f"the broker answers {correlation_id} where {question.correlation_id} was asked"
            )
        return Answer(question, frame, body_at)
