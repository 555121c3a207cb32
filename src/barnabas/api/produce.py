"""Produce: v3-13

Behaviour: each partition takes exactly one record batch (magic 2), checked and appended before
the next request of the connection is looked at. acks=0 has no answer (an error closes the
connection, so that the client notices); acks=1 is answered when the leader has the batch, acks=all
when it is committed. Topics that want their records looked into
(compacted, recompressed) have that done off the loop; later batches queue behind. A partition
that is named twice is answered once, and the last of its records count. The internal topics
take nothing from clients. Transactional batches need a transactional id, all of them the same
producer, and their coordinator's word (`produce_txn.py`).

Version notes: v7 zstd. v8 record errors, message. v9 flexible. v10 current leader. v11
TRANSACTION_ABORTABLE. v12 adds partitions to transactions. v13 topic ids.
"""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from barnabas.api.context import Services, hosted_partition
from barnabas.api.leader_hints import ELSEWHERE, endpoints_of, leader_of
from barnabas.api.produce_append import (
    Appended,
    Outcome,
    Unacknowledged,
    append_checked,
    append_now,
    defer,
    refused,
)
from barnabas.api.produce_lane import Lane, lane_for
from barnabas.api.produce_promise import Promise
from barnabas.api.produce_txn import Transaction, refusal_of_all
from barnabas.log.validation import needs_records
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.model.topics import INTERNAL_TOPICS
from barnabas.ports.exchange import Frames, Later, Peer, Reply
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.headers import RequestHeader, response_header
from barnabas.wire.produce import (
    TOPIC_IDS_FROM,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopic,
    ProduceTopicResult,
    encode_produce_response,
    parse_produce_request,
)
from barnabas.wire.records.batch import TRANSACTIONAL
from barnabas.wire.records.compression import ZSTD

_ZSTD_FROM: Final = 7
_ALL: Final = -1
_ACKS: Final = (_ALL, 0, 1)

_Topic = tuple[str | None, bytes | None, list[Outcome]]


def handle(services: Services, peer: Peer, header: RequestHeader, frame: memoryview) -> Reply:
    """Append what can be appended now; wait only for what must be waited for."""
    request = parse_produce_request(header.api_version, frame, header.body_at)
    if _has_repeats(request.topics):
        request = request._replace(topics=_each_once(request.topics))
    problem = refusal_of_all(request)
    if problem is not None:
        return _refuse_all(services, header, request, problem)
    reply = _handle_parsed(services, header, request)
    peer.state = None
    _open_lane(services, peer, header, frame, request)
    return reply


def handle_in_lane(
    services: Services, lane: Lane, correlation_id: int, records: memoryview
) -> Reply:
    """The same for a request that is like the one before, apart from its records."""
    version = lane.header.api_version
    outcome: Outcome
    try:
        now_ms = services.clock.wall_ms()
        name = lane.request.transactional_id
        transaction = None if name is None else Transaction(services, version, name)
        outcome = _append(
            services,
            version,
            lane.partition,
            lane.index,
            records,
            now_ms,
            transaction,
            everywhere=lane.request.acks == _ALL,
        )
        if type(outcome) is ProducePartitionResult:
            return [lane.answer(correlation_id, outcome)]
    except KafkaError as error:
        outcome = refused(lane.index, error, lane.partition, records)
    encode = partial(_answer_in_lane, services, lane, correlation_id)
    if isinstance(outcome, ProducePartitionResult):
        return encode(outcome)
    if isinstance(outcome, Unacknowledged):
        timeout_s = max(lane.request.timeout_ms, 0) / 1000
        return Later(Promise(outcome, timeout_s, encode).answer, overlaps=True)
    header = lane.header._replace(correlation_id=correlation_id)
    topics: list[_Topic] = [(lane.name, lane.topic_id, [outcome])]
    return Later(_answer_later(services, header, lane.request, topics), overlaps=True)


def _answer_in_lane(
    services: Services, lane: Lane, correlation_id: int, result: ProducePartitionResult
) -> Frames | None:
    if not result.error:
        return [lane.answer(correlation_id, result)]
    header = lane.header._replace(correlation_id=correlation_id)
    return _answer(services, header, lane.request, [(lane.name, lane.topic_id, [result])])


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
    if hosted is None or len(topic.partitions) != 1 or hosted.topic.name in INTERNAL_TOPICS:
        return
    partition = hosted.partitions.get(topic.partitions[0].index)
    if partition is not None:
        generation = services.replicas.generation
        peer.state = lane_for(header, frame, request, partition, generation)


def _has_repeats(topics: list[ProduceTopic]) -> bool:
    """Whether a topic, or a partition of one, is named more than once."""
    if len(topics) > 1 and len({(name, topic_id) for name, topic_id, _ in topics}) < len(topics):
        return True
    return any(
        len(partitions) > 1 and len({index for index, _ in partitions}) < len(partitions)
        for _, _, partitions in topics
    )


def _each_once(topics: Iterable[ProduceTopic]) -> list[ProduceTopic]:
    """Every partition once, with the last records that were sent for it."""
    merged: dict[tuple[str | None, bytes | None], dict[int, ProducePartition]] = {}
    for name, topic_id, partitions in topics:
        merged.setdefault((name, topic_id), {}).update((each.index, each) for each in partitions)
    return [ProduceTopic(*topic, list(found.values())) for topic, found in merged.items()]


def _handle_parsed(services: Services, header: RequestHeader, request: ProduceRequest) -> Reply:
    version = header.api_version
    now_ms = services.clock.wall_ms()
    transactional_id = request.transactional_id
    transaction = (
        None if transactional_id is None else Transaction(services, version, transactional_id)
    )
    finished = True
    topics: list[_Topic] = []
    for name, topic_id, partitions in request.topics:
        hosted = _find(services, version, name, topic_id)
        outcomes: list[Outcome] = []
        for index, records in partitions:
            outcome: Outcome
            partition = None
            try:
                _check_request(version, request, hosted)
                partition = hosted_partition(hosted, index)
                outcome = _append(
                    services,
                    version,
                    partition,
                    index,
                    records,
                    now_ms,
                    transaction,
                    everywhere=request.acks == _ALL,
                )
            except KafkaError as error:
                outcome = refused(index, error, partition, records)
            if type(outcome) is not ProducePartitionResult:
                finished = False
            outcomes.append(outcome)
        topics.append((name, topic_id, outcomes))
    if finished:
        return _answer(services, header, request, topics)
    # The frame is used again for the next request: what waits must not hold on to it.
    bare = request._replace(topics=[])
    return Later(_answer_later(services, header, bare, topics), overlaps=True)


def _refuse_all(
    services: Services, header: RequestHeader, request: ProduceRequest, error: KafkaError
) -> Reply:
    topics = [
        (name, topic_id, [refused(index, error) for index, _ in partitions])
        for name, topic_id, partitions in request.topics
    ]
    return _answer(services, header, request, topics)


def _find(
    services: Services, version: int, name: str | None, topic_id: bytes | None
) -> HostedTopic | None:
    if version >= TOPIC_IDS_FROM:
        return services.replicas.by_id.get(topic_id or b"")
    return services.replicas.by_name.get(name or "")


def _check_request(version: int, request: ProduceRequest, hosted: HostedTopic | None) -> None:
    if request.acks not in _ACKS:
        raise KafkaError(ErrorCode.invalid_required_acks)
    if hosted is None:
        if version >= TOPIC_IDS_FROM:
            raise KafkaError(ErrorCode.unknown_topic_id)
    elif hosted.topic.name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.invalid_topic_exception)


def _append(
    services: Services,
    version: int,
    partition: Partition,
    index: int,
    records: memoryview | None,
    now_ms: int,
    transaction: Transaction | None,
    *,
    everywhere: bool,
) -> Outcome:
    """Append one partition's batch, now if that is possible."""
    if records is None:
        raise KafkaError(ErrorCode.invalid_record, "There are no records.")
    log = partition.log
    batch = log.check(records, now_ms)
    if version < _ZSTD_FROM and batch.codec == ZSTD:
        raise KafkaError(ErrorCode.unsupported_compression_type)
    guard = None
    if batch.attributes & TRANSACTIONAL:
        if transaction is None:
            raise KafkaError(ErrorCode.transactional_id_authorization_failed)
        if transaction.must_wait(partition, batch):
            return transaction.append(partition, index, records, batch, everywhere=everywhere)
        guard = transaction.guard
    plain = log.takes_batches_as_they_are or not needs_records(batch, log.config)
    if partition.deferred or not plain:
        copy = bytes(records[: batch.size])
        checked = append_checked(
            services, partition, index, copy, batch, guard, everywhere=everywhere
        )
        return defer(partition, checked)
    return append_now(partition, index, records, batch, now_ms, guard, everywhere=everywhere)


async def _answer_later(
    services: Services, header: RequestHeader, request: ProduceRequest, topics: list[_Topic]
) -> Frames | None:
    """Wait until every batch is acknowledged, or until the client's patience is over.

    With acks=0 there is nobody to be patient: the wait only keeps the client from sending more.
    """
    timeout_s = max(request.timeout_ms, 0) / 1000
    deadline = asyncio.get_running_loop().time() + timeout_s if request.acks else None
    finished = []
    try:
        for name, topic_id, outcomes in topics:
            results = [await _finished(each, deadline) for each in outcomes]
            finished.append((name, topic_id, results))
    finally:
        for task in _deferred(topics):
            task.cancel()
    return _answer(services, header, request, finished)


def _deferred(topics: list[_Topic]) -> "Iterator[asyncio.Task[Appended]]":
    return (
        each for _, _, outcomes in topics for each in outcomes if isinstance(each, asyncio.Task)
    )


async def _finished(outcome: Outcome, deadline: float | None) -> ProducePartitionResult:
    if isinstance(outcome, asyncio.Task):
        outcome = await outcome
    if isinstance(outcome, ProducePartitionResult):
        return outcome
    result, acknowledged = outcome
    now = asyncio.get_running_loop().time()
    try:
        await asyncio.wait_for(acknowledged, None if deadline is None else deadline - now)
    except TimeoutError:
        return refused(result.index, KafkaError(ErrorCode.request_timed_out))
    except KafkaError as error:
        return refused(result.index, error)
    return result


def _answer(
    services: Services, header: RequestHeader, request: ProduceRequest, topics: list[Any]
) -> Frames | None:
    if request.acks == 0:
        _refuse_silently(topics)
        return None
    version = header.api_version
    endpoints: list[NodeEndpoint] = []
    if any(result.error in ELSEWHERE for _, _, results in topics for result in results):
        topics = [_with_leaders(services, *topic) for topic in topics]
        leaders = (result.current_leader for _, _, results in topics for result in results)
        endpoints = endpoints_of(services, leaders)
    results = [ProduceTopicResult._make(topic) for topic in topics]
    body = encode_produce_response(version, results, node_endpoints=endpoints)
    return [response_header(header.api_key, version, header.correlation_id) + body]


def _with_leaders(
    services: Services,
    name: str | None,
    topic_id: bytes | None,
    results: list[ProducePartitionResult],
) -> _Topic:
    image = services.cluster.image
    told: list[Outcome] = [
        each._replace(current_leader=leader_of(image, name, topic_id, each.index))
        if each.error in ELSEWHERE
        else each
        for each in results
    ]
    return name, topic_id, told


def _refuse_silently(topics: list[Any]) -> None:
    """With acks=0 there is nothing to put an error into: closing the connection must tell."""
    for name, _, results in topics:
        for result in results:
            if result.error:
                raise DecodeError(
                    f"a batch for {name}-{result.index} sent with acks=0 was refused: "
                    f"{ErrorCode(result.error).name} {result.message or ''}".rstrip()
                )
