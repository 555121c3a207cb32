"""Fetch: v4-18

Behaviour: whole, checked batches from the one that holds the asked offset on, up to the high
watermark (for read_committed up to the last stable offset, and with them the transactions among
them that were aborted, for the reader to leave out); the first batch always comes whole, however
small the limits. Too few bytes: the request waits, once, until enough have come or its
time is over, then reads again. Bytes that are not cached are read off the loop. A partition that
is named twice is answered once. Followers read up to the end of the log, and tell by that what
they have (`fetch_followers.py`). Consumers may read at followers, too, up to where those know what
is committed, and are told which is near (`fetch_nearby.py`).

Version notes: v5 log start. v7 sessions. v9 leader epoch. v10 zstd. v11 rack. v12 flexible,
diverging epoch. v13 topic ids. v15 replica state. v16 node endpoints. v17, v18 followers only.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.api.context import Services, check_leader_epoch
from barnabas.api.fetch_followers import (
    check_follower,
    diverging_of_follower,
    has_news_for,
    is_up_to_date,
    note_follower,
)
from barnabas.api.fetch_nearby import check_has, readable, sent_elsewhere
from barnabas.api.fetch_sessions import NO_SESSION, Resolved, TopicKey, Wanted
from barnabas.api.fetch_throttle import held_back_s, note_sent
from barnabas.api.leader_hints import ELSEWHERE, endpoints_of, leader_of
from barnabas.log.reading import ReadResult
from barnabas.log.txn_index import AbortedTransaction
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.exchange import Frames, Later, Peer, Reply
from barnabas.replica.parked import NEWS_S, ParkedFetch
from barnabas.replica.partition import Partition
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.fetch import (
    TOPIC_IDS_FROM,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopicResult,
    encode_fetch_response,
    parse_fetch_request,
)
from barnabas.wire.headers import RequestHeader, response_header

logger = logging.getLogger(__name__)

_READ_COMMITTED: Final = 1
_ISOLATION_LEVELS: Final = (0, _READ_COMMITTED)
_NOT_HERE: Final = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)

_Read = ReadResult | asyncio.Future[ReadResult] | None
_Aborted = Sequence[tuple[int, int]]


@dataclass(slots=True)
class _Cold:
    """What a row of the answer still waits for: its records, or just what was aborted in them."""

    row: int
    partition: Partition
    offset: int
    read: "ReadResult | asyncio.Future[ReadResult]"
    aborted: "asyncio.Future[list[AbortedTransaction]] | None" = None
    follows: bool = False
    """Whether it is for a follower."""

    _forgotten: int = field(init=False)

    def __post_init__(self) -> None:
        self._forgotten = self.partition.log.aborted.forgotten

    async def fill(self, result: FetchPartitionResult) -> FetchPartitionResult:
        """The row with everything in it."""
        read = await self.read if isinstance(self.read, asyncio.Future) else self.read
        if result.aborted is None:
            return result._replace(records=read.data)
        found = self.aborted or self.partition.aborted_transactions(self.offset, read.next_offset)
        aborted = await found if isinstance(found, asyncio.Future) else found
        if self.partition.log.aborted.forgotten != self._forgotten:
            # Retention or compaction came in between, and nobody can say any more what was aborted
            # among these records. The reader comes again for those that are there now.
            return result._replace(records=b"")
        return result._replace(records=read.data, aborted=_told(aborted))


def _told(aborted: list[AbortedTransaction]) -> _Aborted:
    return [(each.producer_id, each.first_offset) for each in aborted]


@dataclass(slots=True)
class _Reading:
    """One pass over the wanted partitions."""

    generation: int
    """Of the partitions that are hosted here."""
    budget: int
    size: int = 0
    failed: bool = False
    parted: bool = False
    """Whether a reader's log is another than ours, or it had better read elsewhere: nobody waits
    for more of that."""
    has_news: bool = False
    """Whether a follower does not know yet how much is committed."""
    held_back: dict[Partition, float] = field(default_factory=dict)
    """Of which a follower gets nothing for so many seconds."""
    places: list[tuple[Partition, int, int]] = field(default_factory=list)
    """Each partition that was found, where its log ended, and how much was committed."""
    rows: list[tuple[TopicKey, FetchPartitionResult]] = field(default_factory=list)
    cold: list[_Cold] = field(default_factory=list)

    def note(self, partition: Partition) -> None:
        """How it was when it was looked at."""
        self.places.append((partition, partition.log.end_offset, partition.high_watermark))


def handle(services: Services, _peer: Peer, header: RequestHeader, frame: memoryview) -> Reply:
    """Answer at once if there is enough; otherwise later."""
    version = header.api_version
    request = parse_fetch_request(version, frame, header.body_at)
    if request.isolation_level not in _ISOLATION_LEVELS:
        return _refuse_all(header, request, ErrorCode.invalid_request)
    try:
        resolved = services.sessions.resolve(version, request)
    except KafkaError as error:
        return _frames(header, encode_fetch_response(version, error.code.value, NO_SESSION, []))
    reading = _read_all(services, version, request, resolved)
    if reading.cold:
        cold = _answer_cold(services, header, resolved, reading)
        return Later(cold, overlaps=False, only_waits=True)
    if _is_enough(request, resolved, reading):
        return _answer(services, header, resolved, reading)
    parked = _answer_later(services, header, request, resolved, reading)
    return Later(parked, overlaps=False, only_waits=True)


def _refuse_all(header: RequestHeader, request: FetchRequest, error: ErrorCode) -> Frames:
    """For the request as a whole, and, since not every version can say that, for each partition."""
    topics = [
        FetchTopicResult(
            name, topic_id, [_failed(each.index, KafkaError(error)) for each in partitions]
        )
        for name, topic_id, partitions in request.topics
    ]
    body = encode_fetch_response(header.api_version, error.value, NO_SESSION, topics)
    return _frames(header, body)


def _is_enough(request: FetchRequest, resolved: Resolved, reading: _Reading) -> bool:
    return (
        reading.size >= request.min_bytes
        or reading.failed
        or reading.parted
        or request.max_wait_ms <= 0
        or not resolved.wanted
    )


def _read_all(
    services: Services, version: int, request: FetchRequest, resolved: Resolved
) -> _Reading:
    limit = services.cluster.image.config.fetch_max_bytes
    reading = _Reading(services.replicas.generation, min(max(request.max_bytes, 0), limit))
    wanted = resolved.wanted
    if resolved.incremental and request.replica_id >= 0:
        wanted = _with_news(services, request, wanted, reading)
    for topic, part in wanted:
        partition = None
        try:
            partition = _find(services, version, request, topic, part.index)
            _check(partition, part, request)
            result = sent_elsewhere(services, partition, part, request)
            if result is None:
                result = _read_one(services, partition, part, request, reading)
                reading.parted = reading.parted or result.diverging_epoch is not None
            else:
                reading.parted = True
            if request.replica_id >= 0 and result.diverging_epoch is None:
                note_follower(partition, part, request)
                reading.has_news = reading.has_news or has_news_for(part, partition)
                if result.high_watermark != partition.high_watermark:
                    result = result._replace(high_watermark=partition.high_watermark)
        except (KafkaError, OSError) as error:
            reading.failed = True
            result = _failed(part.index, error)
            if request.replica_id >= 0 and partition is not None:
                # A follower learns from it where to begin anew.
                result = result._replace(
                    high_watermark=partition.high_watermark,
                    log_start_offset=partition.log.start_offset,
                )
        reading.rows.append((topic, result))
        if partition is not None and partition not in reading.held_back:
            reading.note(partition)
    return reading


def _with_news(
    services: Services, request: FetchRequest, wanted: list[Wanted], reading: _Reading
) -> list[Wanted]:
    """What a follower has to be told of. The rest is left out of the answer, and waited for."""
    now_s = asyncio.get_running_loop().time()
    by_id, others = services.replicas.by_id, []
    for each in wanted:
        hosted = by_id.get(each.topic.topic_id or b"")
        partition = None if hosted is None else hosted.partitions.get(each.partition.index)
        if partition is not None and is_up_to_date(partition, each.partition, request, now_s):
            reading.note(partition)
        else:
            others.append(each)
    return others


def _failed(index: int, error: KafkaError | OSError) -> FetchPartitionResult:
    if isinstance(error, OSError):
        logger.error("reading records failed: %s", error)
        code = ErrorCode.kafka_storage_error
    else:
        code = error.code
    aborted = () if code in _NOT_HERE else None
    return FetchPartitionResult(index, code.value, -1, aborted=aborted, records=b"")


def _find(
    services: Services, version: int, request: FetchRequest, topic: TopicKey, index: int
) -> Partition:
    if version >= TOPIC_IDS_FROM:
        hosted = services.replicas.by_id.get(topic.topic_id or b"")
        if hosted is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
    else:
        hosted = services.replicas.by_name.get(topic.name or "")
    return readable(version, request, hosted, index)


def _read_one(
    services: Services,
    partition: Partition,
    part: FetchPartition,
    request: FetchRequest,
    reading: _Reading,
) -> FetchPartitionResult:
    log = partition.log
    is_follower = request.replica_id >= 0
    committed_only = request.isolation_level == _READ_COMMITTED
    diverging_of = diverging_of_follower if is_follower else _diverging_epoch
    diverging = diverging_of(partition, part)
    stable = partition.last_stable_offset
    read: _Read = None
    wait_s = held_back_s(services, partition, request.replica_id) if is_follower else 0.0
    if wait_s:
        reading.held_back[partition] = wait_s
    elif diverging is None:
        up_to = stable if committed_only else partition.high_watermark
        if is_follower:
            up_to = log.end_offset
        read = _read_records(partition, part, up_to, reading)
    records: bytes | memoryview = b""
    aborted: _Aborted | None = () if committed_only else None
    if isinstance(read, asyncio.Future):
        cold = _Cold(len(reading.rows), partition, part.fetch_offset, read)
        cold.follows = is_follower
        reading.cold.append(cold)
        # What will come is not known yet: room is kept for the most that can.
        reading.budget -= min(part.max_bytes, log.size)
    elif read is not None:
        records = read.data
        reading.size += len(records)
        reading.budget -= len(records)
        if is_follower:
            note_sent(services, partition, len(records))
        if committed_only and log.aborted:
            aborted = _aborted_in(partition, part.fetch_offset, read, reading)
    return FetchPartitionResult(
        part.index,
        0,
        partition.high_watermark,
        stable,
        log.start_offset,
        aborted,
        -1,
        records,
        None,
        diverging,
    )


def _aborted_in(partition: Partition, offset: int, read: ReadResult, reading: _Reading) -> _Aborted:
    found = partition.aborted_transactions(offset, read.next_offset)
    if isinstance(found, asyncio.Future):
        reading.cold.append(_Cold(len(reading.rows), partition, offset, read, found))
        return ()
    return _told(found)


def _check(partition: Partition, part: FetchPartition, request: FetchRequest) -> None:
    check_leader_epoch(partition, part.current_leader_epoch)
    if request.replica_id >= 0:
        check_follower(partition, part, request)
    elif not partition.is_leader:
        check_has(partition, part.fetch_offset)
    if part.max_bytes < 0:
        raise KafkaError(ErrorCode.invalid_request)


def _read_records(
    partition: Partition, part: FetchPartition, up_to: int, reading: _Reading
) -> _Read:
    first = reading.size == 0 and not reading.cold
    max_bytes = max(min(part.max_bytes, reading.budget), 0)
    if max_bytes or first:
        return partition.read(part.fetch_offset, max_bytes, up_to, at_least_one=first)
    # No room is left: only see whether there is such an offset, without touching the file.
    partition.log.plan_read(part.fetch_offset, 0, up_to, at_least_one=False)
    return None


def _diverging_epoch(partition: Partition, part: FetchPartition) -> tuple[int, int] | None:
    """KIP-595: where the reader's log and ours part, if its last epoch says they do."""
    if part.last_fetched_epoch < 0:
        return None
    epoch, end = partition.log.epochs.end_offset(part.last_fetched_epoch, partition.log.end_offset)
    if epoch < 0:
        raise KafkaError(ErrorCode.offset_out_of_range)
    return (epoch, end) if epoch < part.last_fetched_epoch or end < part.fetch_offset else None


async def _answer_later(
    services: Services,
    header: RequestHeader,
    request: FetchRequest,
    resolved: Resolved,
    reading: _Reading,
) -> Frames:
    """Wait, once, for the missing bytes or the deadline; then read again, once."""
    version = header.api_version
    is_follower = request.replica_id >= 0
    if _has_moved(services, reading, is_follower):
        # Something came between the first pass and now, when nobody was parked to be told of it.
        reading = _read_all(services, version, request, resolved)
        if reading.cold or _is_enough(request, resolved, reading):
            return await _answer_cold(services, header, resolved, reading)
    partitions = [partition for partition, _, _ in reading.places]
    wait_s = request.max_wait_ms / 1000
    if reading.has_news:
        wait_s = min(wait_s, NEWS_S)
    if reading.held_back:
        wait_s = min(wait_s, *reading.held_back.values())
    parked = ParkedFetch(request.min_bytes - reading.size, wait_s)
    committed_only = request.isolation_level == _READ_COMMITTED
    for partition in partitions:
        if is_follower:
            partition.park_follower(parked)
        else:
            partition.park_fetch(parked, committed_only=committed_only)
    try:
        await parked.done
    finally:
        parked.wake()
        for partition in partitions:
            partition.unpark_fetch(parked)
    reading = _read_all(services, version, request, resolved)
    return await _answer_cold(services, header, resolved, reading)


def _has_moved(services: Services, reading: _Reading, is_follower: bool) -> bool:
    """Whether a partition is gone, or not as it was when it was looked at."""
    return reading.generation != services.replicas.generation or any(
        not (partition.leads if is_follower else partition.serves_readers)
        or partition.high_watermark != high_watermark
        or (is_follower and partition.log.end_offset != end)
        for partition, end, high_watermark in reading.places
    )


async def _answer_cold(
    services: Services, header: RequestHeader, resolved: Resolved, reading: _Reading
) -> Frames:
    """Put in what had to come from the disk."""
    for cold in reading.cold:
        topic, result = reading.rows[cold.row]
        try:
            result = await cold.fill(result)
            if cold.follows:
                note_sent(services, cold.partition, len(result.records or b""))
        except (KafkaError, OSError) as error:
            result = _failed(result.index, error)
        reading.rows[cold.row] = (topic, result)
    return _answer(services, header, resolved, reading)


def _answer(
    services: Services, header: RequestHeader, resolved: Resolved, reading: _Reading
) -> Frames:
    session = resolved.session
    rows = reading.rows
    if session is not None:
        news = [row for row in rows if session.is_news(*row)]
        rows = news if resolved.incremental else rows
    grouped: dict[TopicKey, list[FetchPartitionResult]] = {}
    for topic, result in rows:
        grouped.setdefault(topic, []).append(result)
    topics = [FetchTopicResult(*topic, results) for topic, results in grouped.items()]
    session_id = NO_SESSION if session is None else session.id
    endpoints: list[NodeEndpoint] = []
    if reading.failed:
        topics = [_with_leaders(services, topic) for topic in topics]
        leaders = (each.current_leader for topic in topics for each in topic.partitions)
        endpoints = endpoints_of(services, leaders)
    body = encode_fetch_response(
        header.api_version, 0, session_id, topics, node_endpoints=endpoints
    )
    return _frames(header, body)


def _with_leaders(services: Services, topic: FetchTopicResult) -> FetchTopicResult:
    image = services.cluster.image
    told = [
        each._replace(current_leader=leader_of(image, topic.name, topic.topic_id, each.index))
        if each.error in ELSEWHERE
        else each
        for each in topic.partitions
    ]
    return topic._replace(partitions=told)


def _frames(header: RequestHeader, body: list[bytes | memoryview]) -> Frames:
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    return [head, *body]
