"""ConsumerGroupHeartbeat: v0-1

Behaviour: a member of a consumer group (KIP-848) joins, is alive, changes its mind or leaves, and
is told what it may read when that has changed.

Version notes: v0 a newcomer may come without a member id, and is given one. v1 it brings its own;
regular expressions.
"""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1 import request as requests
from kio.schema.consumer_group_heartbeat.v1 import response as responses
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one, client_of
from barnabas.api.typed import NO_THROTTLE, duration, i32, milliseconds
from barnabas.coordinator.group.asks import (
    Assignment,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored.offsets import NO_TOPIC_ID

_OWN_MEMBER_ID_FROM: Final = 1


def handle(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> Eventually[ConsumerGroupHeartbeatResponse]:
    """Answer at once, unless something had to be written."""

    def heartbeat() -> Answer[ConsumerHeartbeatAnswer]:
        if call.version >= _OWN_MEMBER_ID_FROM and not request.member_id.strip():
            raise KafkaError(ErrorCode.invalid_request, "MemberId can't be empty.")
        return call.services.groups.consumer_heartbeat(_ask(call, request))

    return answer_one(heartbeat, _answer, _refused)


def _ask(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client=client_of(call),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topic_names=request.subscribed_topic_names,
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else _owned(request.topic_partitions),
    )


def _owned(topics: Iterable[requests.TopicPartitions]) -> Assignment:
    owned: dict[bytes, set[int]] = {}
    for topic in topics:
        topic_id = NO_TOPIC_ID if topic.topic_id is None else topic.topic_id.bytes
        owned.setdefault(topic_id, set()).update(topic.partitions)
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in owned.items()}


def _answer(answer: ConsumerHeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        assignment = responses.Assignment(
            topic_partitions=tuple(
                responses.TopicPartitions(
                    topic_id=UUID(bytes=topic_id), partitions=tuple(map(i32, partitions))
                )
                for topic_id, partitions in answer.assignment.items()
            )
        )
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=answer.member_id,
        member_epoch=i32(answer.member_epoch),
        heartbeat_interval=duration(answer.heartbeat_interval_ms),
        assignment=assignment,
    )


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        error_message=error.message or None,
        member_epoch=i32(0),
        heartbeat_interval=duration(0),
    )
