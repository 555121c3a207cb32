"""InitProducerId: v0-5

Behaviour: every idempotent producer gets a new id with epoch 0, also one that names the id it
had: without transactions an old id is worth nothing. A transactional producer gets the id that
belongs to its transactional id, with the next epoch; those before it are fenced, and what they
left open is aborted first (CONCURRENT_TRANSACTIONS until that is done).

Version notes: v2 flexible. v3 the producer's present id and epoch. v4 PRODUCER_FENCED, before it
was INVALID_PRODUCER_EPOCH. v5 TRANSACTION_ABORTABLE.
"""

from collections.abc import Awaitable
from typing import Final

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from barnabas.api.commits import STORE_ERRORS, store_problem
from barnabas.api.context import Call
from barnabas.api.transaction_answers import require_transactional_id, told_code
from barnabas.api.typed import NO_THROTTLE, ProducerId, i16, milliseconds
from barnabas.coordinator.txn.asks import InitProducer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NOBODY,
    ProducerIdentity,
)
from barnabas.ports.coordination import CoordinationLostError

_FENCED_FROM: Final = 4


def handle(
    call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """An id, or why there is none."""
    has_id = request.producer_id != NO_PRODUCER_ID
    if has_id != (request.producer_epoch != NO_PRODUCER_EPOCH):
        return _answer(ErrorCode.invalid_request)
    return _identity(call, request)


async def _identity(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    try:
        if request.transactional_id is None:
            producer_id = await call.services.producer_ids.take()
            return _answer(ErrorCode.none, ProducerIdentity(producer_id, 0))
        require_transactional_id(request.transactional_id)
        identity = await call.services.transactions.init(_asked(request))
    except KafkaError as error:
        return _answer(told_code(error.code, call.version, _FENCED_FROM))
    except CoordinationLostError:
        # Clients of every age try again after this one.
        return _answer(ErrorCode.coordinator_load_in_progress)
    except STORE_ERRORS as error:
        return _answer(store_problem(error).code)
    return _answer(ErrorCode.none, identity)


def _asked(request: InitProducerIdRequest) -> InitProducer:
    return InitProducer(
        transactional_id=request.transactional_id or "",
        timeout_ms=milliseconds(request.transaction_timeout),
        claimed=ProducerIdentity(request.producer_id, request.producer_epoch),
    )


def _answer(error: ErrorCode, identity: ProducerIdentity = NOBODY) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(identity.producer_id),
        producer_epoch=i16(identity.epoch),
    )
