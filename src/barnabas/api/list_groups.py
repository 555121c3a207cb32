"""ListGroups: v0-5

Behaviour: every group that this broker coordinates. States and types may be asked for in any
case; an unknown one matches nothing.

Version notes: v3 flexible. v4 states, and asking for some only. v5 the same for types.
"""

from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse

from barnabas.api.context import Call
from barnabas.api.group_answers import Eventually, answer_one
from barnabas.api.typed import NO_THROTTLE, GroupId
from barnabas.coordinator.group.asks import Listing
from barnabas.model.errors import ErrorCode, KafkaError


def handle(call: Call, request: ListGroupsRequest) -> Eventually[ListGroupsResponse]:
    """Those that the filters let through; an empty filter lets all through."""
    states = {each.strip().lower() for each in request.states_filter}
    kinds = {each.lower() for each in request.types_filter}

    def told(listings: list[Listing]) -> ListGroupsResponse:
        chosen = (
            each
            for each in listings
            if (not states or each.state.lower() in states)
            and (not kinds or each.kind.lower() in kinds)
        )
        return ListGroupsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            groups=tuple(map(_listed, chosen)),
        )

    return answer_one(call.services.groups.list_groups, told, _refused)


def _listed(listing: Listing) -> ListedGroup:
    return ListedGroup(
        group_id=GroupId(listing.group_id),
        protocol_type=listing.protocol_type,
        group_state=listing.state,
        group_type=listing.kind,
    )


def _refused(error: KafkaError) -> ListGroupsResponse:
    return ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=error.code, groups=())
