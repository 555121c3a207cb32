"""Heartbeat: v0-4

Behaviour: a member of a classic group is alive. While groups are still being loaded every
heart-beat is fine: sessions begin anew when that is done.

Version notes: v3 static members. v4 flexible.
"""

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one, require_group_id
from barnabas.api.typed import NO_THROTTLE
from barnabas.coordinator.group.asks import Heartbeat
from barnabas.model.errors import ErrorCode, KafkaError


def handle(call: Call, request: HeartbeatRequest) -> Eventually[HeartbeatResponse]:
    """Answer at once, as a rule."""

    def heartbeat() -> Answer[None]:
        require_group_id(request.group_id)
        return call.services.groups.heartbeat(
            Heartbeat(
                group_id=request.group_id,
                generation=request.generation_id,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
            )
        )

    return answer_one(heartbeat, lambda _: _answer(ErrorCode.none), _refused)


def _refused(error: KafkaError) -> HeartbeatResponse:
    loading = error.code is ErrorCode.coordinator_load_in_progress
    return _answer(ErrorCode.none if loading else error.code)


def _answer(error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=error)
