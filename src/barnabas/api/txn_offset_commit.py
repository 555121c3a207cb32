"""TxnOffsetCommit: v0-5

Behaviour: as OffsetCommit, but what is committed counts once the producer's transaction is
committed. The group's partition of `__consumer_offsets` must be part of the transaction; unless it
has the transaction open already, the transaction's coordinator is asked before anything is
written.

Version notes: before v2 a coordinator that is loading is COORDINATOR_NOT_AVAILABLE. v2 leader
epochs. v3 flexible; member id, generation and instance id are checked if they are given. v4
TRANSACTION_ABORTABLE, which was INVALID_TXN_STATE. v5 adds the partition to the transaction, for
older ones AddOffsetsToTxn must have done so (KIP-890).
"""

import asyncio
from typing import Final, NamedTuple

from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from barnabas.api.context import Call
from barnabas.api.group_answers import require_group_id
from barnabas.api.transaction_answers import require_transactional_id
from barnabas.api.typed import NO_THROTTLE, i32
from barnabas.coordinator.group.asks import CommitPartition, TxnCommit
from barnabas.coordinator.txn.asks import AddPartitions
from barnabas.log.verification import OPEN_ALREADY, VERIFICATION_OFF, VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import CONSUMER_OFFSETS, TopicPartition
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    CLASSIC_TRANSACTIONS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdentity,
)
from barnabas.wire.records.batch import MAGIC, NO_TIMESTAMP, TRANSACTIONAL, BatchHeader

_LOADING_FROM: Final = 2
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5

_TOLD: Final = {
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}
"""What is wrong with `__consumer_offsets` or at the transaction's coordinator, in the words that a
producer expects of a group's coordinator."""


_BATCH: Final = BatchHeader(
    base_offset=0,
    length=0,
    leader_epoch=-1,
    magic=MAGIC,
    crc=0,
    attributes=TRANSACTIONAL,
    last_offset_delta=0,
    base_timestamp=NO_TIMESTAMP,
    max_timestamp=NO_TIMESTAMP,
    producer_id=NO_PRODUCER_ID,
    producer_epoch=NO_PRODUCER_EPOCH,
    base_sequence=-1,
    count=0,
)
"""What is known, before it is written, of a batch that has no sequence number."""


class _Asked(NamedTuple):
    """A topic of the request, and what of it can be committed, by place in the request."""

    topic: TxnOffsetCommitRequestTopic
    exists: bool
    partitions: dict[int, CommitPartition]


async def handle(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """One result for each partition, in the order of the request."""
    topics = [_looked_up(call, each) for each in request.topics]
    partitions = tuple(each for asked in topics for each in asked.partitions.values())
    if not partitions:
        return _answer(topics, [])
    try:
        codes = await _commit(call, request, partitions)
    except KafkaError as error:
        codes = [_told(error.code, call.version)] * len(partitions)
    return _answer(topics, codes)


def _looked_up(call: Call, asked: TxnOffsetCommitRequestTopic) -> _Asked:
    known = call.services.cluster.image.topics.get(asked.name)
    if known is None:
        return _Asked(asked, exists=False, partitions={})
    return _Asked(
        asked,
        exists=True,
        partitions={
            place: CommitPartition(
                topic=known.name,
                topic_id=known.id_bytes,
                partition=each.partition_index,
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata or "",
            )
            for place, each in enumerate(asked.partitions)
            if each.partition_index in range(len(known.partitions))
        },
    )


async def _commit(
    call: Call, request: TxnOffsetCommitRequest, partitions: tuple[CommitPartition, ...]
) -> list[ErrorCode]:
    require_group_id(request.group_id)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    if producer.producer_id == NO_PRODUCER_ID:
        raise KafkaError(ErrorCode.invalid_producer_id_mapping)
    guard = await _verified(call, request, producer)
    committed = call.services.groups.txn_commit(
        TxnCommit(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            producer=producer,
            partitions=partitions,
            guard=guard,
        )
    )
    return await committed if isinstance(committed, asyncio.Future) else committed


async def _verified(
    call: Call, request: TxnOffsetCommitRequest, producer: ProducerIdentity
) -> VerificationGuard | None:
    """What the group's partition wants to see before a transaction is opened there."""
    services = call.services
    name = TopicPartition(CONSUMER_OFFSETS, services.groups.partition_of(request.group_id))
    partition = services.replicas.find(*name)
    if partition is None or not partition.leads:
        # Before anything becomes part of the transaction, or is judged by what a follower knows.
        raise KafkaError(ErrorCode.not_coordinator)
    adds = call.version >= _ADDS_FROM
    if not adds and not services.cluster.image.config.transactions.verification:
        return VERIFICATION_OFF
    # Taken before the coordinator is asked, so that it notices what happens meanwhile.
    batch = _BATCH._replace(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    guard = partition.begin_verification(batch, services.clock.wall_ms(), bumps_epochs=adds)
    if guard is OPEN_ALREADY:
        return None
    require_transactional_id(request.transactional_id)
    ask = AddPartitions(
        transactional_id=request.transactional_id,
        producer=producer,
        partitions=(name,),
        transaction_version=BUMPED_TRANSACTIONS if adds else CLASSIC_TRANSACTIONS,
    )
    epoch = partition.leader_epoch
    if adds:
        added = services.enrolment.add_partitions(ask)
        if isinstance(added, asyncio.Future):
            await added
        code = ErrorCode.none
    else:
        answer = services.enrolment.verify_partitions(ask)
        found = await answer if isinstance(answer, asyncio.Future) else answer
        code = found.get(name, ErrorCode.none)
    if services.replicas.find(*name) is not partition or partition.leader_epoch != epoch:
        # The guard went with the epoch it was given in. To be asked again, which is harmless:
        # without a valid one the answer would be that the transaction is none, and that is fatal.
        raise KafkaError(ErrorCode.not_coordinator)
    if code is not ErrorCode.none:
        raise KafkaError(code)
    return guard


def _told(code: ErrorCode, version: int) -> ErrorCode:
    told = _TOLD.get(code, code)
    if told is ErrorCode.transaction_abortable and version < _ABORTABLE_FROM:
        return ErrorCode.invalid_txn_state
    if told is ErrorCode.coordinator_load_in_progress and version < _LOADING_FROM:
        # Producers of that time give up on any other error (KAFKA-7296).
        return ErrorCode.coordinator_not_available
    return told


def _answer(topics: list[_Asked], codes: list[ErrorCode]) -> TxnOffsetCommitResponse:
    """`codes` are those of the partitions that the group was asked about."""
    told = iter(codes)
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=i32(each.partition_index),
                        error_code=next(told)
                        if place in partitions
                        else ErrorCode.unknown_topic_or_partition,
                    )
                    for place, each in enumerate(topic.partitions)
                ),
            )
            for topic, exists, partitions in topics
            if topic.partitions or not exists
        ),
    )
