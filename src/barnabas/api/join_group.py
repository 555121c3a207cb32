"""JoinGroup: v0-9

Behaviour: the answer comes when everybody has joined, or the time for it is over; only the
leader is told who the members are. Errors carry the member id that was asked with.

Version notes: v0 has no rebalance timeout: the session timeout counts. v1 adds it. v4 a newcomer
is given a member id first, and comes back with it (MEMBER_ID_REQUIRED). v5 static members. v6
flexible. v7 protocol type; a protocol name may be null, and is so where it would be empty. v8
reason. v9 a leader may be told that nothing is to be assigned.
"""

from typing import Final

from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one, client_of, require_group_id
from barnabas.api.typed import NO_THROTTLE, i32, milliseconds
from barnabas.coordinator.group.asks import NO_GENERATION, Join, Joined
from barnabas.model.errors import ErrorCode, KafkaError

ONLY_WAITS: Final = True

_REBALANCE_TIMEOUT_FROM: Final = 1
_MEMBER_ID_REQUIRED_FROM: Final = 4
_SKIP_ASSIGNMENT_FROM: Final = 9
_NO_COORDINATOR: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.unknown_server_error,
    }
)
"""With these, nobody has looked at who asks: so the answer names nobody."""


def handle(call: Call, request: JoinGroupRequest) -> Eventually[JoinGroupResponse]:
    """Answer when the group is complete."""

    def join() -> Answer[Joined]:
        require_group_id(request.group_id)
        return call.services.groups.join(_ask(call, request))

    return answer_one(join, _joined, lambda error: _refused(request.member_id, error))


def _ask(call: Call, request: JoinGroupRequest) -> Join:
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
    if call.version < _REBALANCE_TIMEOUT_FROM:
        rebalance_timeout_ms = session_timeout_ms
    return Join(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client=client_of(call),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
        reason=request.reason,
        needs_member_id=call.version >= _MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=call.version >= _SKIP_ASSIGNMENT_FROM,
    )


def _joined(joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=joined.error,
        generation_id=i32(joined.generation),
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name or None,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in joined.members
        ),
    )


def _refused(member_id: str, error: KafkaError) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        generation_id=i32(NO_GENERATION),
        protocol_name=None,
        leader="",
        member_id="" if error.code in _NO_COORDINATOR else member_id,
        members=(),
    )
