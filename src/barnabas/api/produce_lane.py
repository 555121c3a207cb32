"""A short cut for the request that producers send most: one partition, the same one as last time.

Everything in front of the records is then byte for byte what it was in the request before, so it
is compared instead of parsed, and the answer is the one before with other offsets. A request that
differs anywhere takes the long way, with the same result.
"""

import struct
from typing import Final

from barnabas.replica.partition import Partition
from barnabas.wire.headers import RequestHeader, response_header
from barnabas.wire.primitives import INT32, read_uvarint
from barnabas.wire.produce import (
    FLEXIBLE_FROM,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopicResult,
    encode_produce_response,
)

_OFFSETS: Final = struct.Struct(">qqq")
_SAMPLE: Final = (0x1111111111111111, 0x2222222222222222, 0x3333333333333333)
"""Stands for base offset, append time and log start while the fixed parts of an answer are made."""
_LOG_START_FROM: Final = 5
_CORRELATION_AT: Final = 4
_FLEXIBLE_TAIL: Final[bytes] = b"\x00\x00\x00"
"""No tagged fields: of the partition, of the topic, of the request."""


class Lane:
    """What stays the same between the requests of one producer on one connection."""

    __slots__ = (
        "_after",
        "_answer",
        "_before",
        "_end",
        "_flexible",
        "_head",
        "_prefix",
        "generation",
        "header",
        "index",
        "name",
        "partition",
        "request",
        "topic_id",
    )

    def __init__(
        self,
        header: RequestHeader,
        frame: memoryview,
        end: int,
        request: ProduceRequest,
        partition: Partition,
        generation: int,
    ) -> None:
        """`end`: where the length of the records begins."""
        topic = request.topics[0]
        self.name, self.topic_id = topic.name, topic.topic_id
        self.index = topic.partitions[0].index
        self.partition = partition
        self.generation = generation
        self.request = request._replace(topics=[])
        self.header = header
        self._flexible = header.api_version >= FLEXIBLE_FROM
        self._head = bytes(frame[:_CORRELATION_AT])
        self._prefix = bytes(frame[_CORRELATION_AT + 4 : end])
        self._end = end
        self._prepare_answer()

    def _prepare_answer(self) -> None:
        version = self.header.api_version
        result = ProducePartitionResult(self.index, 0, *_SAMPLE)
        topic = ProduceTopicResult(self.name, self.topic_id, [result])
        before, after = encode_produce_response(version, [topic]).split(_OFFSETS.pack(*_SAMPLE))
        self._before = response_header(self.header.api_key, version, 0)[4:] + before
        self._after = after
        self._answer = struct.Struct(f">i{len(self._before)}sqqq{len(after)}s")

    def records(self, frame: memoryview) -> memoryview | None:
        """The records, if the request is like the one before; None if it has to be parsed."""
        end = self._end
        if frame[8:end] != self._prefix or frame[:4] != self._head:
            return None
        if self._flexible:
            if len(frame) - end < 5:
                return None
            length, start = read_uvarint(frame, end)
            stop = start + length - 1
            if length and frame[stop:] == _FLEXIBLE_TAIL:
                return frame[start:stop]
            return None
        if len(frame) - end < 4:
            return None
        (length,) = INT32.unpack_from(frame, end)
        return frame[end + 4 :] if len(frame) == end + 4 + length else None

    def answer(self, correlation_id: int, result: ProducePartitionResult) -> bytes:
        """The whole answer, header included, to a batch that was taken."""
        return self._answer.pack(
            correlation_id,
            self._before,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
            self._after,
        )


def correlation_id_of(frame: memoryview) -> int:
    """The number by which the client recognises the answer."""
    return int(INT32.unpack_from(frame, _CORRELATION_AT)[0])


def lane_for(
    header: RequestHeader,
    frame: memoryview,
    request: ProduceRequest,
    partition: Partition,
    generation: int,
) -> Lane | None:
    """A lane for requests like this one, if it is of the common kind."""
    records = request.topics[0].partitions[0].records
    if header.api_version < _LOG_START_FROM or records is None:
        return None
    if header.api_version >= FLEXIBLE_FROM:
        tail = len(_FLEXIBLE_TAIL)
        length_size = max(1, ((len(records) + 1).bit_length() + 6) // 7)
    else:
        tail, length_size = 0, 4
    end = len(frame) - tail - len(records) - length_size
    lane = Lane(header, frame, end, request, partition, generation)
    # Believed only if it finds in this very request what the parser has found. (Both end where
    # the tail begins, so the same length is the same place; comparing the bytes would be dear.)
    found = lane.records(frame)
    return lane if found is not None and len(found) == len(records) else None
