"""Incremental fetch sessions (KIP-227): what a consumer asked for is remembered, so that it need
name only what changes, and is answered only with what changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.clock import Clock
from barnabas.ports.entropy import Entropy
from barnabas.wire.fetch import (
    TOPIC_IDS_FROM,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
)

NO_SESSION: Final = 0
_FINAL_EPOCH: Final = -1
_INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_EVICTABLE_AFTER_S: Final = 120.0
"""Kafka's `min.incremental.fetch.session.eviction.ms`: a younger session is not pushed out."""


class TopicKey(NamedTuple):
    """A topic as the request names it: by name up to version 12, by id from 13 on."""

    name: str | None
    topic_id: bytes | None


class Wanted(NamedTuple):
    """One partition a Fetch is about."""

    topic: TopicKey
    partition: FetchPartition


@dataclass(slots=True)
class _Remembered:
    wanted: Wanted
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class FetchSession:
    """What one consumer wants, in the order in which it is served."""

    id: int
    by_id: bool
    epoch: int
    used_s: float
    partitions: dict[tuple[TopicKey, int], _Remembered] = field(default_factory=dict)

    def wanted(self) -> list[Wanted]:
        """All partitions of the session."""
        return [each.wanted for each in self.partitions.values()]

    def is_news(self, topic: TopicKey, result: FetchPartitionResult) -> bool:
        """Whether an incremental answer must name the partition; remembers what it says."""
        key = (topic, result.index)
        remembered = self.partitions.get(key)
        if remembered is None:
            return True
        asked = remembered.wanted.partition
        changed = (
            remembered.high_watermark != result.high_watermark
            # It was told, and a follower says that it has not taken it in.
            or asked.high_watermark < min(result.high_watermark, asked.fetch_offset)
            or remembered.log_start_offset != result.log_start_offset
        )
        remembered.high_watermark = result.high_watermark
        remembered.log_start_offset = result.log_start_offset
        if result.records:
            # Whoever got data goes to the end, so that every partition gets its turn.
            self.partitions[key] = self.partitions.pop(key)
        return bool(result.records) or bool(result.error) or changed or _sends_away(result)


def _sends_away(result: FetchPartitionResult) -> bool:
    """Whether the reader has to cut its log back first, or to read elsewhere."""
    return result.diverging_epoch is not None or result.preferred_read_replica >= 0


class Resolved(NamedTuple):
    """What a request is about, after its session was looked up."""

    wanted: list[Wanted]
    session: FetchSession | None
    incremental: bool


class FetchSessions:
    """All sessions of a broker, least recently used first."""

    def __init__(self, clock: Clock, entropy: Entropy, slots: int = limits.FETCH_SESSIONS_MAX):
        self._clock = clock
        self._entropy = entropy
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._held = 0
        """Partitions in all sessions together."""

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, version: int, request: FetchRequest) -> Resolved:
        """What to read. Raises KafkaError when the session is unknown or out of step."""
        by_id = version >= TOPIC_IDS_FROM
        if request.session_epoch in (_FINAL_EPOCH, _INITIAL_EPOCH):
            self._close(request.session_id)
            each_once = {(each.topic, each.partition.index): each for each in _asked(request)}
            wanted = list(each_once.values())
            opens = request.session_epoch == _INITIAL_EPOCH and version >= 7
            return Resolved(wanted, self._open(by_id, wanted) if opens else None, False)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.fetch_session_topic_id_error)
        self._update(session, request)
        if not session.partitions:
            self._close(session.id)
            return Resolved([], None, False)
        return Resolved(session.wanted(), session, True)

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._held -= len(session.partitions)

    def _open(self, by_id: bool, wanted: list[Wanted]) -> FetchSession | None:
        """A new session, or None when there is no room: the answer is then a full one."""
        if not wanted or not self._make_room(len(wanted)):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = 1 + self._entropy.below(_EPOCH_MAX)
        session = FetchSession(session_id, by_id, 1, self._clock.monotonic())
        for each in wanted:
            session.partitions[each.topic, each.partition.index] = _Remembered(each)
        self._sessions[session_id] = session
        self._held += len(session.partitions)
        return session

    def _make_room(self, partitions: int) -> bool:
        if partitions > limits.FETCH_SESSION_PARTITIONS_MAX:
            return False
        while len(self._sessions) >= self._slots or self._is_too_much(partitions):
            if not self._sessions:
                return False
            oldest = next(iter(self._sessions.values()))
            if self._clock.monotonic() - oldest.used_s < _EVICTABLE_AFTER_S:
                return False
            self._close(oldest.id)
        return True

    def _is_too_much(self, more: int) -> bool:
        return self._held + more > limits.FETCH_SESSION_PARTITIONS_MAX

    def _update(self, session: FetchSession, request: FetchRequest) -> None:
        for each in _asked(request):
            key = (each.topic, each.partition.index)
            known = session.partitions.get(key)
            if known is not None:
                known.wanted = each
                continue
            if self._is_too_much(1):
                # The client begins anew with a full request, and is served without a session.
                self._close(session.id)
                raise KafkaError(ErrorCode.fetch_session_id_not_found)
            session.partitions[key] = _Remembered(each)
            self._held += 1
        for name, topic_id, indexes in request.forgotten:
            for index in indexes:
                if session.partitions.pop((TopicKey(name, topic_id), index), None) is not None:
                    self._held -= 1
        session.epoch = session.epoch + 1 if session.epoch < _EPOCH_MAX else 1
        session.used_s = self._clock.monotonic()
        self._sessions[session.id] = self._sessions.pop(session.id)


def _asked(request: FetchRequest) -> Iterator[Wanted]:
    for name, topic_id, partitions in request.topics:
        topic = TopicKey(name, topic_id)
        for partition in partitions:
            yield Wanted(topic, partition)
