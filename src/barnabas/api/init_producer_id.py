"""InitProducerId: v0-5

Behaviour: every idempotent producer gets a new id with epoch 0, also one that names the id it
had: without transactions an old id is worth nothing. Transactions are not served yet, so a
transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client takes
as final instead of trying again for ever.

Version notes: v2 flexible. v3 the producer's present id and epoch. v4 PRODUCER_FENCED. v5
transactions of KIP-890.
"""

from collections.abc import Awaitable
from typing import Final

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from barnabas.api.commits import STORE_ERRORS, store_problem
from barnabas.api.context import Call
from barnabas.api.typed import NO_THROTTLE, ProducerId, i16
from barnabas.model.errors import ErrorCode

_NONE: Final = -1


def handle(
    call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """An id, or why there is none."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _answer(ErrorCode.invalid_request)
    if request.transactional_id == "":
        return _answer(ErrorCode.invalid_request)
    if request.transactional_id is not None:
        return _answer(ErrorCode.transactional_id_authorization_failed)
    return _new_id(call)


async def _new_id(call: Call) -> InitProducerIdResponse:
    try:
        return _answer(ErrorCode.none, await call.services.producer_ids.take(), 0)
    except STORE_ERRORS as error:
        return _answer(store_problem(error).code)


def _answer(
    error: ErrorCode, producer_id: int = _NONE, epoch: int = _NONE
) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
    )
