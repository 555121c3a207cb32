"""DescribeLogDirs: v1-5

Behaviour: the one data directory, the room there, and the sizes of the asked partitions in it:
null asks for all, an empty list for none. Partitions that are not here are passed over. Followers
say how far they are behind what is committed.

Version notes: v2 flexible. v3 an error for the whole answer. v4 total and usable bytes. v5
whether the directory is cordoned.
"""

import logging
from typing import Final

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

from barnabas.api.context import Call
from barnabas.api.typed import NO_THROTTLE, TopicName, i32, i64
from barnabas.config.cluster_keys import CORDONED
from barnabas.model.errors import ErrorCode
from barnabas.replica.partition import Partition

logger = logging.getLogger(__name__)

_NOT_KNOWN: Final = -1


async def handle(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """One directory."""
    error, total, usable = await _room(call)
    directory = DescribeLogDirsResult(
        error_code=error,
        log_dir=call.services.replicas.store.root,
        topics=() if error is not ErrorCode.none else _topics(call, request),
        total_bytes=i64(total),
        usable_bytes=i64(usable),
        is_cordoned=bool(call.services.cluster.image.config.dynamic_broker.get(CORDONED)),
    )
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=(directory,)
    )


async def _room(call: Call) -> tuple[ErrorCode, int, int]:
    """All of it, and what is left."""
    store = call.services.replicas.store
    files, root = store.files, store.root
    try:
        total, left = await call.services.work.run(
            lambda: (files.total_bytes(root), files.free_bytes(root))
        )
    except OSError as error:
        logger.error("the room left in %s can not be told: %s", root, error)
        return ErrorCode.kafka_storage_error, _NOT_KNOWN, _NOT_KNOWN
    return ErrorCode.none, total, left


def _topics(call: Call, request: DescribeLogDirsRequest) -> tuple[DescribeLogDirsTopic, ...]:
    hosted = call.services.replicas.by_name
    wanted: dict[str, set[int]] = {}
    if request.topics is None:
        wanted = {name: set(topic.partitions) for name, topic in hosted.items()}
    else:
        for each in request.topics:
            if each.topic in hosted:
                wanted.setdefault(each.topic, set()).update(each.partitions)
    found = (
        (name, sorted(indexes & hosted[name].partitions.keys()))
        for name, indexes in sorted(wanted.items())
    )
    return tuple(
        DescribeLogDirsTopic(
            name=TopicName(name),
            partitions=tuple(_row(index, hosted[name].partitions[index]) for index in indexes),
        )
        for name, indexes in found
        if indexes
    )


def _row(index: int, partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=i32(index),
        partition_size=i64(partition.log.size),
        offset_lag=i64(partition.offset_lag),
        is_future_key=False,
    )
