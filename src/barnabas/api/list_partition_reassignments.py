"""ListPartitionReassignments: v0

Behaviour: the partitions that are being moved to other brokers, of all or of those that are named:
all replicas they have at the moment, and which of them come and go. Partitions that stay where they
are, or do not exist, are not told of.

Version notes: there is one.
"""

from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from barnabas.api.context import Call
from barnabas.api.typed import NO_THROTTLE, BrokerId, TopicName, i32
from barnabas.cluster.errors import NotControllerError
from barnabas.cluster.reassignment import under_way
from barnabas.model.errors import ErrorCode


def handle(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """As the controller knows it: it is the first to know."""
    asked = request.topics
    wanted = (
        None
        if asked is None
        else [(each.name, n) for each in asked for n in each.partition_indexes]
    )
    if not call.services.cluster.is_controller:
        error = NotControllerError()
        return _answer(error.code, error.message, {})
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for topic, number, state in under_way(call.services.cluster.image, wanted):
        by_topic.setdefault(topic.name, []).append(
            OngoingPartitionReassignment(
                partition_index=i32(number),
                replicas=_brokers(state.replicas),
                adding_replicas=_brokers(state.adding),
                removing_replicas=_brokers(state.removing),
            )
        )
    return _answer(ErrorCode.none, None, by_topic)


def _brokers(numbers: tuple[int, ...]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in numbers)


def _answer(
    code: ErrorCode, message: str | None, by_topic: dict[str, list[OngoingPartitionReassignment]]
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        error_message=message,
        topics=tuple(
            OngoingTopicReassignment(name=TopicName(name), partitions=tuple(some))
            for name, some in by_topic.items()
        ),
    )
