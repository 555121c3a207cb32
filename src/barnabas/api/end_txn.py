"""EndTxn: v0-5

Behaviour: answered as soon as the decision is committed in the coordinator's log; its markers
follow by themselves, and what comes before they are all written gets CONCURRENT_TRANSACTIONS.

Version notes: v2 PRODUCER_FENCED, before it was INVALID_PRODUCER_EPOCH. v3 flexible. v4
TRANSACTION_ABORTABLE. v5 the identity for the next transaction (KIP-890).
"""

from typing import Final

from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one
from barnabas.api.transaction_answers import require_transactional_id, told_code
from barnabas.api.typed import NO_THROTTLE, ProducerId, i16
from barnabas.coordinator.txn.asks import EndTransaction
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    CLASSIC_TRANSACTIONS,
    NOBODY,
    ProducerIdentity,
)

_FENCED_FROM: Final = 2
_BUMPED_FROM: Final = 5


def handle(call: Call, request: EndTxnRequest) -> Eventually[EndTxnResponse]:
    """Commit or abort."""
    bumped = call.version >= _BUMPED_FROM

    def end() -> Answer[ProducerIdentity]:
        require_transactional_id(request.transactional_id)
        return call.services.transactions.end(
            EndTransaction(
                transactional_id=request.transactional_id,
                producer=ProducerIdentity(request.producer_id, request.producer_epoch),
                committed=request.committed,
                transaction_version=BUMPED_TRANSACTIONS if bumped else CLASSIC_TRANSACTIONS,
            )
        )

    def refused(error: KafkaError) -> EndTxnResponse:
        return _answer(told_code(error.code, call.version, _FENCED_FROM), NOBODY)

    return answer_one(end, lambda identity: _answer(ErrorCode.none, identity), refused)


def _answer(error: ErrorCode, identity: ProducerIdentity) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(identity.producer_id),
        producer_epoch=i16(identity.epoch),
    )
