"""CreatePartitions: v0-3

Behaviour: each topic grows to the asked number of partitions or is refused by itself; a topic
named twice is refused. New partitions are ready for use when the answer is sent. `validate_only`
does everything but the growing.

Version notes: v2 flexible. v3 THROTTLING_QUOTA_EXCEEDED, which there is no quota for.
"""

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

from barnabas.api.commits import results_of
from barnabas.api.context import Call
from barnabas.api.shared import message_of
from barnabas.api.typed import NO_THROTTLE, TopicName
from barnabas.cluster.topics import NewPartitions, TopicResult


async def handle(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """One result for each different topic."""
    names = dict.fromkeys(each.name for each in request.topics)
    results = await results_of(
        call.services.cluster.create_partitions(
            [_new_partitions(each) for each in request.topics], validate_only=request.validate_only
        ),
        lambda error: [TopicResult(name, error.code, error.message) for name in names],
    )
    return CreatePartitionsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            CreatePartitionsTopicResult(
                name=TopicName(each.name or ""),
                error_code=each.code,
                error_message=message_of(each.code, each.message),
            )
            for each in results
        ),
    )


def _new_partitions(asked: CreatePartitionsTopic) -> NewPartitions:
    if asked.assignments is None:
        return NewPartitions(asked.name, asked.count)
    return NewPartitions(asked.name, asked.count, [each.broker_ids for each in asked.assignments])
