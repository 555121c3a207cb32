"""One leader's connection, and the spans it is asked for: one question ahead, never two."""

import time
from typing import Final, NamedTuple

from barnabas.link.broker import Broker
from barnabas.model import limits
from barnabas.model.check import require
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.spark.places import Place
from barnabas.spark.source.cursors import Cursor
from barnabas.wire.apis import FETCH
from barnabas.wire.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchTopic
from barnabas.wire.fetch_client import encode_fetch_request, parse_fetch_response

SPANS_AT_ONCE: Final = 64
"""Spans in one request: enough that small ones cost no round trip each."""

_VERSION_MAX: Final = 10
"""From 11 on a leader may send readers to a follower, with an answer that looks like an empty one
(KIP-392); from 13 on topics are not named, and their ids would have to be asked for first."""

_FETCH_BYTES_MAX: Final = limits.FRAME_BYTES_MAX // 2
"""The answer, and a batch more if that is larger, must fit into a frame."""

_WAIT_MS: Final = 500
_CONSUMER: Final = -1
_NO_EPOCH: Final = -1
_NO_SESSION: Final = 0
_NO_SESSION_EPOCH: Final = -1


class Answered(NamedTuple):
    """What a leader said about the spans it was asked for, and how long that took."""

    results: list[tuple[Cursor, FetchPartitionResult]]
    size: int
    failed: bool
    waited_s: float


class Lane:
    """Raises what a Link raises, and then must be left; KafkaError for a request refused whole."""

    def __init__(self, broker: Broker, *, committed: bool, fetch_bytes: int) -> None:
        self.broker: Final = broker
        self.cursors: list[Cursor] = []
        self._committed = committed
        self._fetch_bytes = min(fetch_bytes, _FETCH_BYTES_MAX)
        self._asked: dict[Place, Cursor] = {}
        self._version = 0

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is on its way."""
        return bool(self._asked)

    def ask(self) -> None:
        """Send the next question, if anything is left to ask for."""
        require(not self._asked, "one question at a time")
        self.cursors = [cursor for cursor in self.cursors if not cursor.done]
        wanted: dict[Place, Cursor] = {}
        for cursor in self.cursors:
            # A partition is answered once however often it is named, so its spans take turns.
            wanted.setdefault(cursor.place, cursor)
            if len(wanted) == SPANS_AT_ONCE:
                break
        if wanted:
            self._version = self.broker.version(FETCH, at_most=_VERSION_MAX)
            body = encode_fetch_request(self._version, self._request(wanted))
            self.broker.link.send_frame(FETCH, self._version, [body])
            self._asked = wanted

    def _request(self, wanted: dict[Place, Cursor]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for place, cursor in wanted.items():
            size = cursor.ask_bytes(self._fetch_bytes)
            topics.setdefault(place.topic, []).append(_partition(place, cursor.offset, size))
        named = [FetchTopic(name, None, partitions) for name, partitions in topics.items()]
        return self._fetch(named, self._fetch_bytes, _WAIT_MS)

    def _fetch(self, topics: list[FetchTopic], max_bytes: int, max_wait_ms: int) -> FetchRequest:
        return FetchRequest(
            replica_id=_CONSUMER,
            replica_epoch=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(self._committed),
            session_id=_NO_SESSION,
            session_epoch=_NO_SESSION_EPOCH,
            topics=topics,
            forgotten=[],
        )

    def try_at(self, place: Place, offset: int) -> FetchPartitionResult:
        """Ask for one batch at one offset, and wait for it; no other question may be open."""
        require(not self._asked, "one question at a time")
        topic = FetchTopic(place.topic, None, [_partition(place, offset, 1)])
        version = self.broker.version(FETCH, at_most=_VERSION_MAX)
        response = self.broker.link.fetch(version, self._fetch([topic], 1, 0))
        if response.error:
            raise KafkaError(code_of(response.error))
        try:
            return response.topics[0].partitions[0]
        except IndexError as problem:
            raise DecodeError(f"an answer without {place}, which was asked for") from problem

    def receive(self) -> Answered:
        """The answer to the last question."""
        asked, self._asked = self._asked, {}
        since = time.monotonic()
        answer = self.broker.link.receive_frame()
        waited_s = time.monotonic() - since
        response = parse_fetch_response(self._version, answer.frame, answer.body_at)
        if response.error:
            raise KafkaError(code_of(response.error))
        results = []
        size, failed = 0, False
        for topic in response.topics:
            for result in topic.partitions:
                cursor = asked.pop(Place(topic.name or "", result.index), None)
                if cursor is None:
                    raise DecodeError(f"an answer about {topic.name}-{result.index}, not asked for")
                results.append((cursor, result))
                size += len(result.records or b"")
                failed = failed or result.error != 0
        return Answered(results, size, failed, waited_s)


def code_of(error: int) -> ErrorCode:
    """The error's name; a number that has none yet is a problem of the server."""
    try:
        return ErrorCode(error)
    except ValueError:
        return ErrorCode.unknown_server_error


def _partition(place: Place, offset: int, max_bytes: int) -> FetchPartition:
    return FetchPartition(place.partition, _NO_EPOCH, offset, _NO_EPOCH, _NO_EPOCH, max_bytes)
