"""AddPartitionsToTxn: v0-5

Behaviour: all of a transaction's partitions are added, or none: where one does not exist, the
others get OPERATION_NOT_ATTEMPTED. Clients speak v0-3, about one transaction, and can not add
internal topics. Brokers speak v4-5, about many; they may also ask only whether the partitions
are in the transaction, and those that are not get TRANSACTION_ABORTABLE.

Version notes: v2 PRODUCER_FENCED, before it was INVALID_PRODUCER_EPOCH. v3 flexible. v4 many
transactions, verification. v5 TRANSACTION_ABORTABLE.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_all
from barnabas.api.transaction_answers import require_transactional_id, told_code
from barnabas.api.typed import NO_THROTTLE, TopicName, TransactionalId, i32
from barnabas.coordinator.txn.asks import AddPartitions
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import INTERNAL_TOPICS, TopicPartition
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    CLASSIC_TRANSACTIONS,
    ProducerIdentity,
)

_FENCED_FROM: Final = 2
_BROKERS_FROM: Final = 4

_Results = Mapping[TopicPartition, ErrorCode] | None
"""Of each partition; None: it went well for all of them."""


def handle(
    call: Call, request: AddPartitionsToTxnRequest
) -> Eventually[AddPartitionsToTxnResponse]:
    """One result for each partition of each transaction."""

    def told(answers: list[_Results | KafkaError]) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            results_by_transaction=tuple(
                _told(transaction, _code_of(call, answer))
                for transaction, answer in zip(request.transactions, answers, strict=True)
            ),
        )

    return answer_all((partial(_added, call, each) for each in request.transactions), told)


def _added(call: Call, transaction: AddPartitionsToTxnTransaction) -> Answer[Any]:
    """Their `_Results`, by way of the coordinator."""
    partitions = [
        TopicPartition(topic.name, index)
        for topic in transaction.topics
        for index in topic.partitions
    ]
    problems = _problems(call, partitions)
    if problems:
        return {each: problems.get(each, ErrorCode.operation_not_attempted) for each in partitions}
    require_transactional_id(transaction.transactional_id)
    from_broker = call.version >= _BROKERS_FROM
    ask = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer=ProducerIdentity(transaction.producer_id, transaction.producer_epoch),
        partitions=tuple(dict.fromkeys(partitions)),
        transaction_version=BUMPED_TRANSACTIONS if from_broker else CLASSIC_TRANSACTIONS,
    )
    coordinator = call.services.transactions
    if transaction.verify_only:
        return coordinator.verify_partitions(ask)
    return coordinator.add_partitions(ask)


def _problems(call: Call, partitions: list[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Those that can be in no transaction, and why."""
    topics = call.services.cluster.image.topics
    problems = {}
    for each in partitions:
        if call.version < _BROKERS_FROM and each.topic in INTERNAL_TOPICS:
            problems[each] = ErrorCode.topic_authorization_failed
        elif each.topic not in topics or not (
            0 <= each.partition < len(topics[each.topic].partitions)
        ):
            problems[each] = ErrorCode.unknown_topic_or_partition
    return problems


def _code_of(call: Call, answer: _Results | KafkaError) -> Callable[[TopicPartition], ErrorCode]:
    """The result of each partition."""
    if isinstance(answer, KafkaError):
        code = told_code(answer.code, call.version, _FENCED_FROM)
        return lambda _: code
    results = answer or {}
    return lambda partition: results.get(partition, ErrorCode.none)


def _told(
    transaction: AddPartitionsToTxnTransaction, code_of: Callable[[TopicPartition], ErrorCode]
) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=TransactionalId(transaction.transactional_id),
        topic_results=tuple(
            AddPartitionsToTxnTopicResult(
                name=TopicName(topic.name),
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=i32(index),
                        partition_error_code=code_of(TopicPartition(topic.name, index)),
                    )
                    for index in topic.partitions
                ),
            )
            for topic in transaction.topics
        ),
    )
