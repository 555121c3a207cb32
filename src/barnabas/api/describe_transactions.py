"""DescribeTransactions: v0

Behaviour: one description for each id, in the order in which they were asked for. While a
transaction is being ended, all of its partitions are told, with and without marker.

Version notes: v0 is the only one.
"""

from functools import partial

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_all
from barnabas.api.transaction_answers import by_topic, require_transactional_id
from barnabas.api.typed import (
    NO_THROTTLE,
    ProducerId,
    TopicName,
    TransactionalId,
    duration,
    i16,
    i32,
    moment,
)
from barnabas.coordinator.txn.asks import DescribedTransaction
from barnabas.model.errors import ErrorCode, KafkaError


def handle(
    call: Call, request: DescribeTransactionsRequest
) -> Eventually[DescribeTransactionsResponse]:
    """What is known of each."""

    def told(answers: list[DescribedTransaction | KafkaError]) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            throttle_time=NO_THROTTLE,
            transaction_states=tuple(
                _undescribed(name, answer.code)
                if isinstance(answer, KafkaError)
                else _described(answer)
                for name, answer in zip(request.transactional_ids, answers, strict=True)
            ),
        )

    return answer_all((partial(_describe, call, each) for each in request.transactional_ids), told)


def _describe(call: Call, transactional_id: str) -> Answer[DescribedTransaction]:
    require_transactional_id(transactional_id)
    return call.services.transactions.describe(transactional_id)


def _described(transaction: DescribedTransaction) -> TransactionState:
    return TransactionState(
        error_code=ErrorCode.none,
        transactional_id=TransactionalId(transaction.transactional_id),
        transaction_state=transaction.state.title,
        transaction_timeout=duration(transaction.timeout_ms),
        transaction_start_time=moment(transaction.start_ms),
        producer_id=ProducerId(transaction.producer.producer_id),
        producer_epoch=i16(transaction.producer.epoch),
        topics=tuple(
            TopicData(topic=TopicName(name), partitions=tuple(map(i32, partitions)))
            for name, partitions in by_topic(transaction.partitions)
        ),
    )


def _undescribed(transactional_id: str, error: ErrorCode) -> TransactionState:
    return TransactionState(
        error_code=error,
        transactional_id=TransactionalId(transactional_id),
        transaction_state="",
        transaction_timeout=duration(0),
        transaction_start_time=moment(0),
        producer_id=ProducerId(0),
        producer_epoch=i16(0),
        topics=(),
    )
