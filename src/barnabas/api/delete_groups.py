"""DeleteGroups: v0-2

Behaviour: groups without members are deleted, with their offsets; each group by itself, and each
once, however often it is named.

Version notes: v2 flexible.
"""

from functools import partial

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse

from barnabas.api.context import Call
from barnabas.api.group_answers import Eventually, answer_all
from barnabas.api.typed import NO_THROTTLE, GroupId
from barnabas.model.errors import ErrorCode, KafkaError


def handle(call: Call, request: DeleteGroupsRequest) -> Eventually[DeleteGroupsResponse]:
    """One result for each different group."""
    names = tuple(dict.fromkeys(request.groups_names))

    def told(answers: list[KafkaError | None]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            throttle_time=NO_THROTTLE,
            results=tuple(
                DeletableGroupResult(
                    group_id=GroupId(name),
                    error_code=ErrorCode.none if answer is None else answer.code,
                )
                for name, answer in zip(names, answers, strict=True)
            ),
        )

    delete = call.services.groups.delete_group
    return answer_all((partial(delete, name) for name in names), told)
