"""FindCoordinator: v0-6

Behaviour: a group or transactional id is coordinated by the broker that leads its partition of
the internal topic; that topic is created when somebody first looks for one, before the answer. For
share partitions it is COORDINATOR_NOT_AVAILABLE.

Version notes: v1 key type, message ("NONE" if there is no error, up to v3). v3 flexible. v4 many
keys. v5 TRANSACTION_ABORTABLE. v6 share coordinators.
"""

import re
from collections.abc import Iterable
from typing import Final

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from barnabas.api.context import Call
from barnabas.api.group_answers import Eventually
from barnabas.api.shared import UNKNOWN_ENUM_MESSAGE, known_broker
from barnabas.api.typed import NO_THROTTLE, BrokerId, i32
from barnabas.coordinator.java_hash import partition_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_TOPICS: Final[dict[int, str]] = {_GROUP: CONSUMER_OFFSETS, _TRANSACTION: TRANSACTION_STATE}
_MANY_KEYS_FROM: Final = 4
_SHARE_FROM: Final = 6
_SHARE_KEY: Final = re.compile(r"[^:]+:[A-Za-z0-9_-]{22}:[0-9]{1,10}")
"""Group, topic id and partition."""

_NO_SHARES: Final = "This broker does not serve share groups yet."


def handle(call: Call, request: FindCoordinatorRequest) -> Eventually[FindCoordinatorResponse]:
    """One answer for each key."""
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        return _answer(
            _nobody(key, *_refusal(call.version, request.key_type, key))
            for key in request.coordinator_keys
        )
    if topic in call.services.cluster.image.topics or not request.coordinator_keys:
        return _answer(_coordinator(call, topic, key) for key in request.coordinator_keys)
    return _answer_when_ready(call, request, topic)


async def _answer_when_ready(
    call: Call, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    services = call.services
    try:
        if request.key_type == _GROUP:
            await services.groups.ready()
        else:
            await services.transactions.ready()
    except KafkaError as error:
        refusal = error.code, error.message
        return _answer(_nobody(key, *refusal) for key in request.coordinator_keys)
    return _answer(_coordinator(call, topic, key) for key in request.coordinator_keys)


def _refusal(version: int, key_type: int, key: str) -> tuple[ErrorCode, str]:
    if key_type != _SHARE or version < _SHARE_FROM:
        return ErrorCode.invalid_request, UNKNOWN_ENUM_MESSAGE
    if not _SHARE_KEY.fullmatch(key):
        return ErrorCode.invalid_request, "A share key has the form group:topic-id:partition."
    return ErrorCode.coordinator_not_available, _NO_SHARES


def _answer(coordinators: Iterable[Coordinator]) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(coordinators))


def _coordinator(call: Call, topic: str, key: str) -> Coordinator:
    """Whoever leads the partition in which the key is kept."""
    known = call.services.cluster.image.topics.get(topic)
    if known is None:
        return _nobody(key, ErrorCode.coordinator_not_available, "")
    leader = known.partitions[partition_of(key, len(known.partitions))].leader
    node = known_broker(call, leader)
    if node is None:
        return _nobody(key, ErrorCode.coordinator_not_available, "")
    return Coordinator(
        key=key,
        node_id=BrokerId(node.id),
        host=node.host,
        port=i32(node.port),
        error_code=ErrorCode.none,
        error_message="" if call.version >= _MANY_KEYS_FROM else "NONE",
    )


def _nobody(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=BrokerId(-1),
        host="",
        port=i32(-1),
        error_code=error,
        error_message=message,
    )
