"""ListOffsets: v1-11

Behaviour: the offset that belongs to a time (the first record not older than it), or to one of
the negative numbers that stand for latest, earliest and their kind. Consumers see offsets below
the high watermark, or the last stable offset for read_committed; replicas see the log's end.
Searches by time run off the loop. Nothing is tiered here, so "latest tiered" and "earliest
pending upload" are nowhere, and "earliest local" is earliest. A partition named twice is refused.

Version notes: v2 isolation level. v4 leader epochs. v6 flexible. v7 max timestamp (-3). v8
earliest local (-4). v9 latest tiered (-5). v10 timeout. v11 earliest pending upload (-6).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from barnabas.api.context import Call, check_leader_epoch, hosted_partition
from barnabas.api.typed import NO_THROTTLE, TopicName, i32, i64
from barnabas.log.timestamps import TimedOffset, TimestampSearch
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.replica.partition import Partition

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6

_SPOKEN_FROM: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}

_CONSUMER: Final = -1
_OFFSET_NOT_AVAILABLE_FROM: Final = 5
_READ_COMMITTED: Final = 1

_Key = tuple[str, int]


@dataclass(slots=True)
class _Search:
    """A look-up by time that has to be carried out off the loop."""

    key: _Key
    partition: Partition
    timestamp: int
    search: TimestampSearch

    def run(self) -> TimedOffset | None:
        if self.timestamp == _MAX_TIMESTAMP:
            return self.search.latest()
        return self.search.first_at_or_after(self.timestamp)


@dataclass(slots=True)
class _Listing:
    """The answers so far, in the order of the request, and the searches still to be done."""

    answers: dict[_Key, ListOffsetsPartitionResponse] = field(default_factory=dict)
    searches: list[_Search] = field(default_factory=list)


def handle(
    call: Call, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answer at once unless records have to be searched."""
    listing = _Listing()
    times = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            listing.answers[key] = _refused(asked.partition_index, ErrorCode.invalid_request)
            if times[key] == 1:
                _list(call, request, listing, key, asked)
    return _search_and_answer(call, listing) if listing.searches else _answer(listing)


def _list(
    call: Call,
    request: ListOffsetsRequest,
    listing: _Listing,
    key: _Key,
    asked: ListOffsetsPartition,
) -> None:
    """Put one partition's answer into the listing, or its search."""
    name, index = key
    timestamp = asked.timestamp
    if timestamp < 0 and call.version < _SPOKEN_FROM.get(timestamp, call.version + 1):
        listing.answers[key] = _refused(index, ErrorCode.unsupported_version)
        return
    try:
        partition = hosted_partition(call.services.replicas.by_name.get(name), index)
        check_leader_epoch(partition, asked.current_leader_epoch)
    except KafkaError as error:
        listing.answers[key] = _refused(index, error.code)
        return
    is_earliest = timestamp in (_EARLIEST, _EARLIEST_LOCAL)
    if request.replica_id == _CONSUMER and not is_earliest and partition.is_behind_its_epoch:
        # A new leader that does not know yet what is committed would let offsets go back.
        listing.answers[key] = _refused(index, _not_yet(call.version))
        return
    end = _visible_end(partition, request)
    if timestamp == _LATEST:
        listing.answers[key] = _found(index, end, partition.leader_epoch)
    elif is_earliest:
        start = partition.log.start_offset
        listing.answers[key] = _found(index, start, _epoch_at(partition, start))
    elif timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        listing.answers[key] = _refused(index, ErrorCode.none)
    else:
        search = partition.log.timestamp_search(end)
        listing.searches.append(_Search(key, partition, timestamp, search))


def _not_yet(version: int) -> ErrorCode:
    known = version >= _OFFSET_NOT_AVAILABLE_FROM
    return ErrorCode.offset_not_available if known else ErrorCode.leader_not_available


def _visible_end(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id != _CONSUMER:
        return partition.log.end_offset
    if request.isolation_level == _READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _epoch_at(partition: Partition, offset: int) -> int:
    """The epoch of a record; where there is none yet, the one it will be written in."""
    epoch = partition.log.epochs.epoch_at(offset)
    return epoch if epoch >= 0 else partition.leader_epoch


async def _search_and_answer(call: Call, listing: _Listing) -> ListOffsetsResponse:
    work = call.services.work
    found = await asyncio.gather(
        *(work.run(each.run) for each in listing.searches), return_exceptions=True
    )
    for search, result in zip(listing.searches, found, strict=True):
        listing.answers[search.key] = _searched(search, result)
    return _answer(listing)


def _searched(
    search: _Search, result: TimedOffset | BaseException | None
) -> ListOffsetsPartitionResponse:
    index = search.key[1]
    match result:
        case None:
            return _refused(index, ErrorCode.none)
        case TimedOffset(offset, timestamp):
            return _found(index, offset, _epoch_at(search.partition, offset), timestamp)
        case KafkaError():
            return _refused(index, result.code)
        case DecodeError():
            return _refused(index, ErrorCode.corrupt_message)
        case OSError():
            return _refused(index, ErrorCode.kafka_storage_error)
        case _:
            raise result


def _found(
    index: int, offset: int, epoch: int, timestamp: int = -1
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=i32(index),
        error_code=ErrorCode.none,
        timestamp=i64(timestamp),
        offset=i64(offset),
        leader_epoch=i32(epoch),
    )


def _refused(index: int, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=i32(index), error_code=error)


def _answer(listing: _Listing) -> ListOffsetsResponse:
    by_topic: dict[str, list[ListOffsetsPartitionResponse]] = {}
    for (name, _), answer in listing.answers.items():
        by_topic.setdefault(name, []).append(answer)
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            ListOffsetsTopicResponse(name=TopicName(name), partitions=tuple(answers))
            for name, answers in by_topic.items()
        ),
    )
