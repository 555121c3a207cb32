"""DescribeGroups: v0-6

Behaviour: classic groups with their members, in the order they were asked for. A group that does
not exist (or is of the other kind) is Dead. Why and when a group was last rebalanced is told in
a tagged field of our own, which clients that do not know it step over.

Version notes: v3 allowed operations. v4 static members. v5 flexible. v6 a group that does not
exist is GROUP_ID_NOT_FOUND, with a message; our own tagged field.
"""

from functools import partial
from typing import Final

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroupMember

from barnabas.api.context import Call
from barnabas.api.group_answers import Eventually, answer_all, told_rebalance
from barnabas.api.shared import GROUP_OPERATIONS, OPERATIONS_NOT_ASKED
from barnabas.api.typed import NO_THROTTLE, GroupId, i32
from barnabas.coordinator.group.asks import Described, DescribedMember
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.shapes.describe_groups import DescribedGroup, DescribeGroupsResponse

_NOT_FOUND_FROM: Final = 6
_DEAD: Final = "Dead"


def handle(call: Call, request: DescribeGroupsRequest) -> Eventually[DescribeGroupsResponse]:
    """One description for each group that was named."""
    asked = request.include_authorized_operations
    operations = GROUP_OPERATIONS if asked else OPERATIONS_NOT_ASKED

    def told(answers: list[Described | KafkaError]) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            throttle_time=NO_THROTTLE,
            groups=tuple(
                _undescribed(call.version, name, answer, operations)
                if isinstance(answer, KafkaError)
                else _described(answer, operations)
                for name, answer in zip(request.groups, answers, strict=True)
            ),
        )

    describe = call.services.groups.describe
    return answer_all((partial(describe, name) for name in request.groups), told)


def _described(group: Described, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=tuple(map(_member, group.members)),
        authorized_operations=i32(operations),
        last_rebalance=told_rebalance(group.last_rebalance),
    )


def _member(member: DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client.id,
        client_host=member.client.host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )


def _undescribed(version: int, name: str, error: KafkaError, operations: int) -> DescribedGroup:
    missing = error.code is ErrorCode.group_id_not_found
    is_told = not missing or version >= _NOT_FOUND_FROM
    return DescribedGroup(
        error_code=error.code if is_told else ErrorCode.none,
        error_message=(error.message or None) if is_told else None,
        group_id=GroupId(name),
        group_state=_DEAD if missing else "",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=i32(OPERATIONS_NOT_ASKED if is_told else operations),
    )
