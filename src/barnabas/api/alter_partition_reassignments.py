"""AlterPartitionReassignments: v0-1

Behaviour: of each partition the replicas it shall have from now on, in the order of preference, or
null to take a move back that is under way. The answer comes when that is decided and stored; the
move itself ends when all of these replicas are in sync (ListPartitionReassignments tells what is
under way). Another list replaces the one before it.

Version notes: v1 a request may forbid that the number of replicas changes.
"""

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
)
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

from barnabas.api.commits import results_of
from barnabas.api.context import Call
from barnabas.api.shared import message_of
from barnabas.api.typed import NO_THROTTLE, TopicName, i32
from barnabas.cluster.reassignment import Reassignment, ReassignmentResult
from barnabas.model.errors import ErrorCode, KafkaError


async def handle(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """One result for each partition that is named, in order."""
    wanted = [
        Reassignment(topic.name, each.partition_index, each.replicas)
        for topic in request.topics
        for each in topic.partitions
    ]
    problem: KafkaError | None = None

    def refused(error: KafkaError) -> list[ReassignmentResult]:
        nonlocal problem
        problem = error
        return []

    may_change = request.allow_replication_factor_change
    results = await results_of(
        call.services.cluster.reassign(wanted, keeps_factor=not may_change), refused
    )
    by_topic: dict[str, list[ReassignmentResult]] = {}
    for result in results:
        by_topic.setdefault(result.topic, []).append(result)
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=may_change,
        error_code=problem.code if problem else ErrorCode.none,
        error_message=message_of(problem.code, problem.message) if problem else None,
        responses=tuple(_of_topic(name, some) for name, some in by_topic.items()),
    )


def _of_topic(name: str, results: list[ReassignmentResult]) -> ReassignableTopicResponse:
    return ReassignableTopicResponse(
        name=TopicName(name),
        partitions=tuple(
            ReassignablePartitionResponse(
                partition_index=i32(each.partition),
                error_code=each.code,
                error_message=message_of(each.code, each.message),
            )
            for each in results
        ),
    )
