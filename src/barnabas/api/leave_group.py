"""LeaveGroup: v0-5

Behaviour: members leave, or are sent away, each with its own result. In a group that does not
exist every member is unknown.

Version notes: v0 to v2 one member, whose error is the answer's. v3 many, and by static instance
id too. v4 flexible. v5 reasons.
"""

from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one, require_group_id
from barnabas.api.typed import NO_THROTTLE
from barnabas.coordinator.group.asks import Leaver, Left
from barnabas.model.errors import ErrorCode, KafkaError


def handle(call: Call, request: LeaveGroupRequest) -> Eventually[LeaveGroupResponse]:
    """One result for each who leaves."""
    leavers = [
        Leaver(member_id=each.member_id, instance_id=each.group_instance_id, reason=each.reason)
        for each in request.members
    ]

    def leave() -> Answer[list[Left]]:
        require_group_id(request.group_id)
        return call.services.groups.leave(request.group_id, leavers)

    return answer_one(leave, _left, lambda error: _refused(leavers, error))


def _left(results: list[Left]) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        members=tuple(
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                error_code=each.error,
            )
            for each in results
        ),
    )


def _refused(leavers: list[Leaver], error: KafkaError) -> LeaveGroupResponse:
    if error.code is ErrorCode.unknown_member_id:
        return _left(
            [
                Left(member_id=each.member_id, instance_id=each.instance_id, error=error.code)
                for each in leavers
            ]
        )
    return LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=error.code, members=())
