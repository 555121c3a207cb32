"""Produce: v3-13

Behaviour: each partition takes exactly one record batch (magic 2), checked and appended before
the next request of the connection is looked at. acks=0 has no answer (an error closes the
connection, so that the client notices); acks=1 and acks=all are answered when the batch is
acknowledged: with one replica both mean the same. Topics that want their records looked into
(compacted, recompressed) have that done off the loop; later batches queue behind.

Version notes: v7 zstd. v8 record errors, message. v9 flexible. v10 current leader. v13 topic ids.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from barnabas.api.context import Services, hosted_partition
from barnabas.api.produce_lane import Lane, lane_for
from barnabas.log.validation import RefusedRecordsError, needs_records, with_records
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.ports.exchange import Frames, Later, Peer, Reply
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic
from barnabas.wire.headers import RequestHeader, response_header
from barnabas.wire.produce import (
    TOPIC_IDS_FROM,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopicResult,
    encode_produce_response,
    parse_produce_request,
)
from barnabas.wire.records.batch import TRANSACTIONAL, BatchHeader, parse_header
from barnabas.wire.records.compression import ZSTD

_ZSTD_FROM: Final = 7
_ACKS: Final = (-1, 0, 1)


class _Unacknowledged(NamedTuple):
    """Appended, and to be answered with `result` once the future is done."""

    result: ProducePartitionResult
    acknowledged: "asyncio.Future[None]"


_Outcome = ProducePartitionResult | _Unacknowledged | Coroutine[Any, Any, ProducePartitionResult]
_Topic = tuple[str | None, bytes | None, list[_Outcome]]


def handle(services: Services, peer: Peer, header: RequestHeader, frame: memoryview) -> Reply:
    """Append what can be appended now; wait only for what must be waited for."""
    request = parse_produce_request(header.api_version, frame, header.body_at)
    reply = _handle_parsed(services, header, request)
    peer.state = None
    _open_lane(services, peer, header, frame, request)
    return reply


def handle_in_lane(
    services: Services, lane: Lane, correlation_id: int, records: memoryview
) -> Reply:
    """The same for a request that is like the one before, apart from its records."""
    version = lane.header.api_version
    outcome: _Outcome
    try:
        outcome = _append(
            services, version, lane.partition, lane.index, records, services.clock.wall_ms()
        )
        if type(outcome) is ProducePartitionResult:
            return [lane.answer(correlation_id, outcome)]
    except KafkaError as error:
        outcome = _refused(lane.index, error)
    header = lane.header._replace(correlation_id=correlation_id)
    topics: list[_Topic] = [(lane.name, lane.topic_id, [outcome])]
    if type(outcome) is ProducePartitionResult:
        return _answer(header, lane.request, topics)
    return Later(_answer_later(header, lane.request, topics), overlaps=True)


def _open_lane(
    services: Services,
    peer: Peer,
    header: RequestHeader,
    frame: memoryview,
    request: ProduceRequest,
) -> None:
    """Be quicker when the next request is like this one."""
    if request.acks not in (-1, 1) or len(request.topics) != 1:
        return
    topic = request.topics[0]
    hosted = _find(services, header.api_version, topic.name, topic.topic_id)
    if hosted is None or len(topic.partitions) != 1:
        return
    partition = hosted.partitions.get(topic.partitions[0].index)
    if partition is not None:
        generation = services.replicas.generation
        peer.state = lane_for(header, frame, request, partition, generation)


def _handle_parsed(services: Services, header: RequestHeader, request: ProduceRequest) -> Reply:
    version = header.api_version
    now_ms = services.clock.wall_ms()
    finished = True
    topics: list[_Topic] = []
    for name, topic_id, partitions in request.topics:
        hosted = _find(services, version, name, topic_id)
        outcomes: list[_Outcome] = []
        for index, records in partitions:
            outcome: _Outcome
            try:
                _check_request(version, request, hosted)
                partition = hosted_partition(hosted, index)
                outcome = _append(services, version, partition, index, records, now_ms)
            except KafkaError as error:
                outcome = _refused(index, error)
            if type(outcome) is not ProducePartitionResult:
                finished = False
            outcomes.append(outcome)
        topics.append((name, topic_id, outcomes))
    if finished:
        return _answer(header, request, topics)
    return Later(_answer_later(header, request, topics), overlaps=True)


def _find(
    services: Services, version: int, name: str | None, topic_id: bytes | None
) -> HostedTopic | None:
    if version >= TOPIC_IDS_FROM:
        return services.replicas.by_id.get(topic_id or b"")
    return services.replicas.by_name.get(name or "")


def _check_request(version: int, request: ProduceRequest, hosted: HostedTopic | None) -> None:
    if request.acks not in _ACKS:
        raise KafkaError(ErrorCode.invalid_required_acks)
    if hosted is None and version >= TOPIC_IDS_FROM:
        raise KafkaError(ErrorCode.unknown_topic_id)


def _append(
    services: Services,
    version: int,
    partition: Partition,
    index: int,
    records: memoryview | None,
    now_ms: int,
) -> _Outcome:
    """Append one partition's batch, now if that is possible."""
    if records is None:
        raise KafkaError(ErrorCode.invalid_record, "There are no records.")
    log = partition.log
    batch = log.check(records, now_ms)
    if batch.attributes & TRANSACTIONAL:
        raise KafkaError(
            ErrorCode.transactional_id_authorization_failed,
            "This broker does not serve transactions yet.",
        )
    if version < _ZSTD_FROM and batch.codec == ZSTD:
        raise KafkaError(ErrorCode.unsupported_compression_type)
    plain = log.takes_batches_as_they_are or not needs_records(batch, log.config)
    if partition.deferred or not plain:
        partition.deferred += 1
        return _append_checked(services, partition, index, bytes(records[: batch.size]), batch)
    return _append_now(partition, index, records, batch, now_ms)


def _append_now(
    partition: Partition, index: int, records: memoryview, batch: BatchHeader, now_ms: int
) -> ProducePartitionResult | _Unacknowledged:
    appended, acknowledged = partition.append(records, batch, now_ms)
    result = ProducePartitionResult(
        index, 0, appended.first_offset, appended.append_time_ms, partition.log.start_offset
    )
    return result if acknowledged is None else _Unacknowledged(result, acknowledged)


async def _append_checked(
    services: Services, partition: Partition, index: int, records: bytes, batch: BatchHeader
) -> ProducePartitionResult:
    """Look into the records off the loop, then append; batches keep the order they came in."""
    try:
        async with partition.order:
            now_ms = services.clock.wall_ms()
            config = partition.log.config
            stored = await services.work.run(lambda: with_records(records, batch, config, now_ms))
            view = memoryview(bytearray(stored))
            outcome = _append_now(partition, index, view, parse_header(view), now_ms)
        if isinstance(outcome, _Unacknowledged):
            await outcome.acknowledged
            return outcome.result
        return outcome
    except KafkaError as error:
        return _refused(index, error)
    finally:
        partition.deferred -= 1


def _refused(index: int, error: KafkaError) -> ProducePartitionResult:
    refused = error.refused if isinstance(error, RefusedRecordsError) else ()
    return ProducePartitionResult(
        index, error.code.value, -1, message=error.message or None, record_errors=refused
    )


async def _answer_later(
    header: RequestHeader, request: ProduceRequest, topics: list[_Topic]
) -> Frames | None:
    """Wait until every batch is acknowledged, or until the client's patience is over."""
    timeout_s = max(request.timeout_ms, 0) / 1000
    finished: list[_Topic] = []
    for name, topic_id, outcomes in topics:
        results = await asyncio.gather(*(_finished(each, timeout_s) for each in outcomes))
        finished.append((name, topic_id, list(results)))
    return _answer(header, request, finished)


async def _finished(outcome: _Outcome, timeout_s: float) -> ProducePartitionResult:
    if isinstance(outcome, ProducePartitionResult):
        return outcome
    if not isinstance(outcome, _Unacknowledged):
        return await outcome
    try:
        await asyncio.wait_for(outcome.acknowledged, timeout_s)
    except TimeoutError:
        return _refused(outcome.result.index, KafkaError(ErrorCode.request_timed_out))
    except KafkaError as error:
        return _refused(outcome.result.index, error)
    return outcome.result


def _answer(header: RequestHeader, request: ProduceRequest, topics: list[Any]) -> Frames | None:
    if request.acks == 0:
        _refuse_silently(topics)
        return None
    version = header.api_version
    body = encode_produce_response(version, [ProduceTopicResult._make(topic) for topic in topics])
    return [response_header(header.api_key, version, header.correlation_id) + body]


def _refuse_silently(topics: list[Any]) -> None:
    """With acks=0 there is nothing to put an error into: closing the connection must tell."""
    for name, _, results in topics:
        for result in results:
            if result.error:
                raise DecodeError(
                    f"a batch for {name}-{result.index} sent with acks=0 was refused: "
                    f"{ErrorCode(result.error).name} {result.message or ''}".rstrip()
                )
