"""OffsetDelete: v0

Behaviour: a group forgets single offsets. Topics and partitions that do not exist, and topics
that the group reads (GROUP_SUBSCRIBED_TO_TOPIC), have errors of their own; what concerns the whole
group is the answer's error, and then no partition is named.

Version notes: there is one version only, and it is not flexible.
"""

from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one, require_group_id
from barnabas.api.typed import NO_THROTTLE, TopicName, i32
from barnabas.model.errors import ErrorCode, KafkaError

_Partition = tuple[str, int]


def handle(call: Call, request: OffsetDeleteRequest) -> Eventually[OffsetDeleteResponse]:
    """One result for each partition that is named."""
    wanted: list[_Partition] = [
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    there = [each for each in dict.fromkeys(wanted) if _exists(call, *each)]

    def delete() -> Answer[list[ErrorCode]]:
        require_group_id(request.group_id)
        return call.services.groups.delete_offsets(request.group_id, there)

    def told(codes: list[ErrorCode]) -> OffsetDeleteResponse:
        return _answer(wanted, dict(zip(there, codes, strict=True)))

    return answer_one(delete, told, _refused)


def _exists(call: Call, name: str, index: int) -> bool:
    topic = call.services.cluster.image.topics.get(name)
    return topic is not None and 0 <= index < len(topic.partitions)


def _answer(wanted: list[_Partition], codes: dict[_Partition, ErrorCode]) -> OffsetDeleteResponse:
    topics: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for name, index in wanted:
        code = codes.get((name, index), ErrorCode.unknown_topic_or_partition)
        topics.setdefault(name, []).append(
            OffsetDeleteResponsePartition(partition_index=i32(index), error_code=code)
        )
    return OffsetDeleteResponse(
        error_code=ErrorCode.none,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetDeleteResponseTopic(name=TopicName(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _refused(error: KafkaError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code, throttle_time=NO_THROTTLE, topics=())
