"""ElectLeaders: v0-2

Behaviour: of each partition the preferred replica (the first of its list) leads from now on, if it
is in sync (type 0); or, where nobody leads, a live replica that may lack records (type 1). Without
a list all partitions are meant, and only those that needed it are told of. New leaders are
decided and stored when the answer is sent.

Version notes: v1 election type (before, 0 is meant), top-level error. v2 flexible.
"""

from typing import Final

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

from barnabas.api.commits import results_of
from barnabas.api.context import Call
from barnabas.api.shared import UNKNOWN_ENUM_MESSAGE, message_of
from barnabas.api.typed import NO_THROTTLE, TopicName, i32
from barnabas.cluster.controller import ElectionResult
from barnabas.model.errors import ErrorCode, KafkaError

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


async def handle(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """One result for each different partition."""
    asked = request.topic_partitions
    wanted = None if asked is None else [(each.topic, n) for each in asked for n in each.partitions]
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        problem = ErrorCode.invalid_request
        results = [ElectionResult(*each, problem, UNKNOWN_ENUM_MESSAGE) for each in wanted or ()]
        return _answer(results, problem)
    problem = ErrorCode.none

    def refused(error: KafkaError) -> list[ElectionResult]:
        # Who asked for all of them can not be told of each.
        nonlocal problem
        problem = error.code
        return [ElectionResult(*each, error.code, error.message) for each in wanted or ()]

    results = await results_of(
        call.services.cluster.elect_leaders(wanted, unclean=request.election_type == _UNCLEAN),
        refused,
    )
    return _answer(results, problem)


def _answer(results: list[ElectionResult], error: ErrorCode) -> ElectLeadersResponse:
    by_topic: dict[str, list[ElectionResult]] = {}
    for each in results:
        by_topic.setdefault(each.topic, []).append(each)
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=TopicName(name),
                partition_result=tuple(
                    PartitionResult(
                        partition_id=i32(each.partition),
                        error_code=each.code,
                        error_message=message_of(each.code, each.message),
                    )
                    for each in some
                ),
            )
            for name, some in by_topic.items()
        ),
    )
