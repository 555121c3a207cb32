"""WriteTxnMarkers: v1-2

Behaviour: the ends of transactions, as their coordinator (or somebody who ends a hanging one by
hand) tells them, are written into partitions, in the order of the request. Answered once all are
committed, by producer id; a producer id that is named twice is answered once, with the last
result for each partition. A marker without partitions is not answered for.

Version notes: v1 flexible. v2 transaction version.
"""

import asyncio
from collections.abc import Awaitable

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from barnabas.api.context import Call
from barnabas.api.typed import ProducerId, TopicName, i32
from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import Marker

_Results = dict[int, dict[str, dict[int, ErrorCode]]]


def handle(
    call: Call, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Write them all; or none, when one is of no producer at all."""
    if any(each.producer_id < 0 or each.producer_epoch < 0 for each in request.markers):
        return _refused(request)
    return _write(call, request)


def _refused(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    results: _Results = {}
    for marker in request.markers:
        for name, index in _partitions(marker):
            _put(results, marker, name, index, ErrorCode.unknown_server_error)
    return _answer(results)


async def _write(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    write = call.services.markers.write
    # Each is appended before the next begins, and all are waited for together.
    written = await asyncio.gather(
        *(write(_marker(each), _partitions(each)) for each in request.markers)
    )
    results: _Results = {}
    for each, codes in zip(request.markers, written, strict=True):
        for (name, index), code in codes.items():
            _put(results, each, name, index, code)
    return _answer(results)


def _marker(told: WritableTxnMarker) -> Marker:
    return Marker(
        producer_id=told.producer_id,
        epoch=told.producer_epoch,
        coordinator_epoch=told.coordinator_epoch,
        committed=told.transaction_result,
        transaction_version=told.transaction_version,
    )


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    """Each once, in order."""
    named = (
        TopicPartition(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    )
    return list(dict.fromkeys(named))


def _put(
    results: _Results, marker: WritableTxnMarker, name: str, index: int, code: ErrorCode
) -> None:
    results.setdefault(marker.producer_id, {}).setdefault(name, {})[index] = code


def _answer(results: _Results) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(
                producer_id=ProducerId(producer_id),
                topics=tuple(
                    WritableTxnMarkerTopicResult(
                        name=TopicName(name),
                        partitions=tuple(
                            WritableTxnMarkerPartitionResult(
                                partition_index=i32(index), error_code=code
                            )
                            for index, code in partitions.items()
                        ),
                    )
                    for name, partitions in topics.items()
                ),
            )
            for producer_id, topics in results.items()
        ),
    )
