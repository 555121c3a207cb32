"""FindCoordinator: v0-6

Behaviour: there are no coordinators yet. For a consumer or share group the answer is
COORDINATOR_NOT_AVAILABLE: clients ask again now and then and carry on with everything else, so
a consumer that has a group.id and only uses assign() works. For a transactional id it is
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because a transactional producer can do nothing without
its coordinator, and should say so at once instead of waiting for its time-out.

Version notes: v1 key type, message. v3 flexible. v4 many keys. v5 TRANSACTION_ABORTABLE. v6
share coordinators.
"""

import logging
import re
from typing import Final

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from barnabas.api.context import Call
from barnabas.api.shared import UNKNOWN_ENUM_MESSAGE
from barnabas.api.typed import NO_THROTTLE, BrokerId, i32
from barnabas.model.errors import ErrorCode

_log = logging.getLogger(__name__)

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_SHARE_FROM: Final = 6
_SHARE_KEY: Final = re.compile(r"[^:]+:[A-Za-z0-9_-]{22}:[0-9]{1,10}")
"""Group, topic id and partition."""

_NO_GROUPS: Final = "This broker has no group coordinator yet: assign partitions instead."
_NO_TRANSACTIONS: Final = "This broker does not serve transactions yet."


def handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """One answer for each different key."""
    if request.key_type == _GROUP and not call.peer.told_about_groups:
        # Clients only keep asking; without this line nobody would learn why nothing comes.
        call.peer.told_about_groups = True
        _log.info(
            "A consumer at %s:%d looks for its group, and groups are not served yet: partitions "
            "that it assigns itself are, topics that it subscribes to are not.",
            *call.peer.remote,
        )
    coordinators = tuple(
        _nobody(key, *_refusal(call.version, request.key_type, key))
        for key in dict.fromkeys(request.coordinator_keys)
    )
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)


def _refusal(version: int, key_type: int, key: str) -> tuple[ErrorCode, str]:
    if key_type == _GROUP:
        return ErrorCode.coordinator_not_available, _NO_GROUPS
    if key_type == _TRANSACTION:
        return ErrorCode.transactional_id_authorization_failed, _NO_TRANSACTIONS
    if key_type != _SHARE or version < _SHARE_FROM:
        return ErrorCode.invalid_request, UNKNOWN_ENUM_MESSAGE
    if not _SHARE_KEY.fullmatch(key):
        return ErrorCode.invalid_request, "A share key has the form group:topic-id:partition."
    return ErrorCode.coordinator_not_available, _NO_GROUPS


def _nobody(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=BrokerId(-1),
        host="",
        port=i32(-1),
        error_code=error,
        error_message=message,
    )
