"""ConsumerGroupDescribe: v0-1

Behaviour: consumer groups (KIP-848) with their members, what each reads now and what it shall
read, in the order they were asked for. Topics that are gone are left out. Why and when a group was
last rebalanced is told in a tagged field of our own, which clients that do not know it step over.

Version notes: v1 kinds of members; our own tagged field.
"""

from functools import partial
from typing import Final

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import Assignment as ToldAssignment
from kio.schema.consumer_group_describe.v1.response import Member, TopicPartitions

from barnabas.api.context import Call
from barnabas.api.group_answers import (
    Answer,
    Eventually,
    answer_all,
    require_group_id,
    told_rebalance,
)
from barnabas.api.shared import GROUP_OPERATIONS, OPERATIONS_NOT_ASKED
from barnabas.api.typed import NO_THROTTLE, GroupId, TopicName, i8, i32
from barnabas.cluster.image import Image
from barnabas.coordinator.group.asks import (
    Assignment,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.shapes.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

_CONSUMER_MEMBER: Final = 1


def handle(
    call: Call, request: ConsumerGroupDescribeRequest
) -> Eventually[ConsumerGroupDescribeResponse]:
    """One description for each group that was named."""
    asked = request.include_authorized_operations
    operations = GROUP_OPERATIONS if asked else OPERATIONS_NOT_ASKED

    def told(
        answers: list[DescribedConsumerGroup | KafkaError],
    ) -> ConsumerGroupDescribeResponse:
        image = call.services.cluster.image
        return ConsumerGroupDescribeResponse(
            throttle_time=NO_THROTTLE,
            groups=tuple(
                _undescribed(name, answer)
                if isinstance(answer, KafkaError)
                else _described(image, answer, operations)
                for name, answer in zip(request.group_ids, answers, strict=True)
            ),
        )

    return answer_all((partial(_describe, call, name) for name in request.group_ids), told)


def _describe(call: Call, name: str) -> Answer[DescribedConsumerGroup]:
    require_group_id(name)
    return call.services.groups.describe_consumer(name)


def _described(image: Image, group: DescribedConsumerGroup, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        group_epoch=i32(group.group_epoch),
        assignment_epoch=i32(group.assignment_epoch),
        assignor_name=group.assignor,
        members=tuple(_member(image, each) for each in group.members),
        authorized_operations=i32(operations),
        last_rebalance=told_rebalance(group.last_rebalance),
    )


def _member(image: Image, member: DescribedConsumer) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=i32(member.member_epoch),
        client_id=member.client.id,
        client_host=member.client.host,
        subscribed_topic_names=tuple(map(TopicName, member.topic_names)),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(image, member.assignment),
        target_assignment=_assignment(image, member.target),
        member_type=i8(_CONSUMER_MEMBER),
    )


def _assignment(image: Image, assignment: Assignment) -> ToldAssignment:
    return ToldAssignment(
        topic_partitions=tuple(
            TopicPartitions(
                topic_id=topic.id,
                topic_name=TopicName(topic.name),
                partitions=tuple(map(i32, partitions)),
            )
            for topic_id, partitions in assignment.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        )
    )


def _undescribed(name: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.message or None,
        group_id=GroupId(name),
        group_state="",
        group_epoch=i32(0),
        assignment_epoch=i32(0),
        assignor_name="",
        members=(),
    )
