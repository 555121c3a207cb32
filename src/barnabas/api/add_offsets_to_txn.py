"""AddOffsetsToTxn: v0-4

Behaviour: the partition of `__consumer_offsets` that keeps the group's offsets becomes part of the
transaction. Only clients of the older generation ask for it: TxnOffsetCommit v5 adds it itself.

Version notes: v2 PRODUCER_FENCED, before it was INVALID_PRODUCER_EPOCH. v3 flexible. v4
TRANSACTION_ABORTABLE.
"""

import asyncio
from typing import Final

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse

from barnabas.api.context import Call
from barnabas.api.transaction_answers import require_transactional_id, told_code
from barnabas.api.typed import NO_THROTTLE
from barnabas.coordinator.txn.asks import AddPartitions
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import CONSUMER_OFFSETS, TopicPartition
from barnabas.model.transactions import CLASSIC_TRANSACTIONS, ProducerIdentity

_FENCED_FROM: Final = 2


async def handle(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """The group's offsets belong to the transaction from now on."""
    services = call.services
    try:
        require_transactional_id(request.transactional_id)
        # A group whose members never looked for their coordinator has no topic yet.
        await services.groups.ready()
        partition = services.groups.partition_of(request.group_id)
        added = services.transactions.add_partitions(
            AddPartitions(
                transactional_id=request.transactional_id,
                producer=ProducerIdentity(request.producer_id, request.producer_epoch),
                partitions=(TopicPartition(CONSUMER_OFFSETS, partition),),
                transaction_version=CLASSIC_TRANSACTIONS,
            )
        )
        if isinstance(added, asyncio.Future):
            await added
    except KafkaError as error:
        return _answer(told_code(error.code, call.version, _FENCED_FROM))
    return _answer(ErrorCode.none)


def _answer(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(throttle_time=NO_THROTTLE, error_code=error)
