"""Fetch: v4-18

Behaviour: whole, checked batches from the one that holds the asked offset on, up to the high
watermark (for read_committed up to the last stable offset, and with them the transactions among
them that were aborted, for the reader to leave out); the first batch always comes whole, however
small the limits. Too few bytes: the request waits, once, until enough have come or its
time is over, then reads again. Bytes that are not cached are read off the loop. A partition that
is named twice is answered once. There are no followers, so whoever claims to be one is refused.

Version notes: v5 log start. v7 sessions. v9 leader epoch. v10 zstd. v11 rack. v12 flexible,
diverging epoch. v13 topic ids. v15 replica state. v16 node endpoints. v17, v18 followers only.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.api.context import Services, check_leader_epoch, hosted_partition
from barnabas.api.fetch_sessions import NO_SESSION, Resolved, TopicKey, Wanted
from barnabas.log.reading import ReadResult
from barnabas.log.txn_index import AbortedTransaction
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.exchange import Frames, Later, Peer, Reply
from barnabas.replica.parked import ParkedFetch
from barnabas.replica.partition import Partition
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

    budget: int
    size: int = 0
    failed: bool = False
    rows: list[tuple[TopicKey, FetchPartitionResult]] = field(default_factory=list)
    cold: list[_Cold] = field(default_factory=list)


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
    reading = _read_all(services, version, request, resolved.wanted)
    if reading.cold:
        cold = _answer_cold(header, resolved, reading)
        return Later(cold, overlaps=False, only_waits=True)
    if _is_enough(request, resolved, reading):
        return _answer(header, resolved, reading)
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
        or request.max_wait_ms <= 0
        or not resolved.wanted
    )


def _read_all(
    services: Services, version: int, request: FetchRequest, wanted: list[Wanted]
) -> _Reading:
    limit = services.cluster.image.config.fetch_max_bytes
    reading = _Reading(budget=min(max(request.max_bytes, 0), limit))
    for topic, part in wanted:
        try:
            partition = _find(services, version, topic, part.index)
            result = _read_one(partition, part, request, reading)
        except (KafkaError, OSError) as error:
            reading.failed = True
            result = _failed(part.index, error)
        reading.rows.append((topic, result))
    return reading


def _failed(index: int, error: KafkaError | OSError) -> FetchPartitionResult:
    if isinstance(error, OSError):
        logger.error("reading records failed: %s", error)
        code = ErrorCode.kafka_storage_error
    else:
        code = error.code
    aborted = () if code in _NOT_HERE else None
    return FetchPartitionResult(index, code.value, -1, aborted=aborted, records=b"")


def _find(services: Services, version: int, topic: TopicKey, index: int) -> Partition:
    if version >= TOPIC_IDS_FROM:
        hosted = services.replicas.by_id.get(topic.topic_id or b"")
        if hosted is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
    else:
        hosted = services.replicas.by_name.get(topic.name or "")
    return hosted_partition(hosted, index)


def _read_one(
    partition: Partition, part: FetchPartition, request: FetchRequest, reading: _Reading
) -> FetchPartitionResult:
    _check(partition, part, request)
    log = partition.log
    committed_only = request.isolation_level == _READ_COMMITTED
    diverging = _diverging_epoch(partition, part)
    stable = partition.last_stable_offset
    read: _Read = None
    if diverging is None:
        read = _read_records(
            partition, part, stable if committed_only else partition.high_watermark, reading
        )
    records: bytes | memoryview = b""
    aborted: _Aborted | None = () if committed_only else None
    if isinstance(read, asyncio.Future):
        reading.cold.append(_Cold(len(reading.rows), partition, part.fetch_offset, read))
        # What will come is not known yet: room is kept for the most that can.
        reading.budget -= min(part.max_bytes, log.size)
    elif read is not None:
        records = read.data
        reading.size += len(records)
        reading.budget -= len(records)
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
        raise KafkaError(ErrorCode.not_leader_or_follower)
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
    partitions = _unmoved(services, version, resolved.wanted, reading)
    if partitions is None:
        # Something came between the first pass and now, when nobody was parked to be told of it.
        reading = _read_all(services, version, request, resolved.wanted)
        if reading.cold or _is_enough(request, resolved, reading):
            return await _answer_cold(header, resolved, reading)
        partitions = [
            _find(services, version, topic, part.index) for topic, part in resolved.wanted
        ]
    parked = ParkedFetch(request.min_bytes - reading.size, request.max_wait_ms / 1000)
    committed_only = request.isolation_level == _READ_COMMITTED
    for partition in partitions:
        partition.park_fetch(parked, committed_only=committed_only)
    try:
        await parked.done
    finally:
        parked.wake()
        for partition in partitions:
            partition.unpark_fetch(parked)
    reading = _read_all(services, version, request, resolved.wanted)
    return await _answer_cold(header, resolved, reading)


def _unmoved(
    services: Services, version: int, wanted: list[Wanted], reading: _Reading
) -> list[Partition] | None:
    """The partitions, if each is still there and as it was when it was read."""
    partitions = []
    for (topic, part), (_, result) in zip(wanted, reading.rows, strict=True):
        try:
            partition = _find(services, version, topic, part.index)
        except KafkaError:
            return None
        if partition.high_watermark != result.high_watermark:
            return None
        partitions.append(partition)
    return partitions


async def _answer_cold(header: RequestHeader, resolved: Resolved, reading: _Reading) -> Frames:
    """Put in what had to come from the disk."""
    for cold in reading.cold:
        topic, result = reading.rows[cold.row]
        try:
            result = await cold.fill(result)
        except (KafkaError, OSError) as error:
            result = _failed(result.index, error)
        reading.rows[cold.row] = (topic, result)
    return _answer(header, resolved, reading)


def _answer(header: RequestHeader, resolved: Resolved, reading: _Reading) -> Frames:
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
    return _frames(header, encode_fetch_response(header.api_version, 0, session_id, topics))


def _frames(header: RequestHeader, body: list[bytes | memoryview]) -> Frames:
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    return [head, *body]
