"""SyncGroup: v0-5

Behaviour: the leader brings everybody's assignment; the others wait for it. Nobody's assignment
is null: who was given none gets no bytes.

Version notes: v3 static members. v4 flexible. v5 protocol type and name must be named, and are
told.
"""

from typing import Final

from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one, require_group_id
from barnabas.api.typed import NO_THROTTLE
from barnabas.coordinator.group.asks import Sync, Synced
from barnabas.model.errors import ErrorCode, KafkaError

ONLY_WAITS: Final = True

_PROTOCOL_FROM: Final = 5


def handle(call: Call, request: SyncGroupRequest) -> Eventually[SyncGroupResponse]:
    """Answer when the leader has assigned."""

    def sync() -> Answer[Synced]:
        named = request.protocol_type is not None and request.protocol_name is not None
        if call.version >= _PROTOCOL_FROM and not named:
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        require_group_id(request.group_id)
        return call.services.groups.sync(_ask(request))

    return answer_one(sync, _synced, _refused)


def _ask(request: SyncGroupRequest) -> Sync:
    return Sync(
        group_id=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={each.member_id: each.assignment for each in request.assignments},
    )


def _synced(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol_name,
        assignment=synced.assignment,
    )


def _refused(error: KafkaError) -> SyncGroupResponse:
    return SyncGroupResponse(throttle_time=NO_THROTTLE, error_code=error.code, assignment=b"")
