"""Metadata: v0-13

Behaviour: live brokers, and topics by name, by id, or all of them; each topic once, in the
order of first mention. A named topic that is missing is created where both the request and
`auto.create.topics.enable` allow it, and is answered as usable at once: creation is done before
the answer, so no client has to ask again. Internal topics are never created this way.

Version notes: v0 no topics means all; from v1 on null does. v4 the request's say on creation.
v8 to v10 operations allowed on the cluster; v8 on topics. v9 flexible. v10 topic ids in
answers, v12 in requests. v13 an error for the whole answer.
"""

import uuid
from collections.abc import Awaitable, Iterable, Mapping
from itertools import islice
from typing import Final

from kio.schema.metadata.v13.request import MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from barnabas.api.commits import results_of
from barnabas.api.context import Call
from barnabas.api.shared import (
    CLUSTER_OPERATIONS,
    OPERATIONS_NOT_ASKED,
    TOPIC_OPERATIONS,
    leaderships,
    live_brokers,
)
from barnabas.api.typed import NO_THROTTLE, BrokerId, TopicName, i32
from barnabas.cluster.image import Topic
from barnabas.cluster.topics import NewTopic, TopicResult
from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import INTERNAL_TOPICS, check_topic_name
from barnabas.wire.shapes.metadata import MetadataRequest, MetadataResponse

_IDS_FROM: Final = 12
_NOT_YET: Final = frozenset(
    {
        ErrorCode.none,
        ErrorCode.topic_already_exists,
        ErrorCode.not_controller,
        ErrorCode.request_timed_out,
    }
)
"""What became of a creation after which the topic may be there at the client's next look."""

_Wanted = str | uuid.UUID


def handle(call: Call, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer at once, or after the missing topics were created."""
    if request.topics is None:
        names = tuple(call.services.cluster.image.topics)
        return _answer(call, request, [_known(call, request, name) for name in names])
    if not _well_formed(call.version, request.topics):
        return _refused(request.topics)
    wanted = tuple(dict.fromkeys(each.topic_id or each.name or "" for each in request.topics))
    missing = _creatable(call, request, wanted)
    if missing:
        return _create_and_answer(call, request, wanted, missing)
    return _answer(call, request, [_topic(call, request, each, {}) for each in wanted])


def _well_formed(version: int, topics: Iterable[MetadataRequestTopic]) -> bool:
    if version < _IDS_FROM:
        return all(each.topic_id is None and each.name is not None for each in topics)
    return all(each.topic_id is not None or each.name is not None for each in topics)


def _refused(topics: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(),
        topics=tuple(
            _without_partitions(ErrorCode.invalid_request, each.name or "", each.topic_id)
            for each in dict.fromkeys(topics)
        ),
        error_code=ErrorCode.invalid_request,
    )


def _creatable(call: Call, request: MetadataRequest, wanted: Iterable[_Wanted]) -> list[str]:
    """Names that are missing and may be created now."""
    image = call.services.cluster.image
    if not (request.allow_auto_topic_creation and image.config.auto_create_topics_enable):
        return []
    missing = (
        name
        for name in wanted
        if isinstance(name, str)
        and name not in image.topics
        and name not in INTERNAL_TOPICS
        and _name_error(name) is None
    )
    return list(islice(missing, limits.METADATA_CREATES_TOPICS_MAX))


async def _create_and_answer(
    call: Call, request: MetadataRequest, wanted: Iterable[_Wanted], missing: list[str]
) -> MetadataResponse:
    results = await results_of(
        call.services.cluster.create_topics([NewTopic(name) for name in missing]),
        lambda error: [TopicResult(name, error.code, error.message) for name in missing],
    )
    errors = {each.name: each.code for each in results if each.name is not None}
    return _answer(call, request, [_topic(call, request, each, errors) for each in wanted])


def _topic(
    call: Call, request: MetadataRequest, wanted: _Wanted, errors: Mapping[str, ErrorCode]
) -> MetadataResponseTopic:
    """One topic; `errors` says why it could not be created."""
    image = call.services.cluster.image
    if isinstance(wanted, uuid.UUID):
        topic = image.topics_by_id.get(wanted.bytes)
        if topic is None:
            return _without_partitions(ErrorCode.unknown_topic_id, None, wanted)
        return _known(call, request, topic.name)
    if wanted in image.topics:
        return _known(call, request, wanted)
    error = errors.get(wanted, ErrorCode.none)
    if error in _NOT_YET:
        error = _name_error(wanted) or ErrorCode.unknown_topic_or_partition
    return _without_partitions(error, wanted, None)


def _name_error(name: str) -> ErrorCode | None:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return None


def _without_partitions(
    error: ErrorCode, name: str | None, topic_id: uuid.UUID | None
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=None if name is None else TopicName(name),
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
    )


def _known(call: Call, request: MetadataRequest, name: str) -> MetadataResponseTopic:
    topic = call.services.cluster.image.topics[name]
    asked = request.include_topic_authorized_operations
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(name),
        topic_id=topic.id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=_partitions(call, topic),
        topic_authorized_operations=i32(TOPIC_OPERATIONS if asked else OPERATIONS_NOT_ASKED),
    )


def _partitions(call: Call, topic: Topic) -> tuple[MetadataResponsePartition, ...]:
    return tuple(
        MetadataResponsePartition(
            error_code=error,
            partition_index=i32(index),
            leader_id=BrokerId(leader),
            leader_epoch=i32(state.leader_epoch),
            replica_nodes=tuple(map(BrokerId, state.replicas)),
            isr_nodes=tuple(map(BrokerId, state.isr)),
            offline_replicas=tuple(map(BrokerId, offline)),
        )
        for index, (state, (error, leader, offline)) in enumerate(
            zip(topic.partitions, leaderships(call, topic), strict=True)
        )
    )


def _answer(
    call: Call, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    image = call.services.cluster.image
    asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=tuple(
            MetadataResponseBroker(
                node_id=BrokerId(each.id), host=each.host, port=i32(each.port), rack=each.rack
            )
            for each in live_brokers(call)
        ),
        cluster_id=image.cluster_id,
        controller_id=BrokerId(image.controller_id),
        topics=tuple(topics),
        error_code=ErrorCode.none,
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else OPERATIONS_NOT_ASKED,
    )
