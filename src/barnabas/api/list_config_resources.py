"""ListConfigResources: v0-1

Behaviour: the names of everything that can be asked about with DescribeConfigs: topics and
brokers. There are no client metrics, no group settings and no loggers to list.

Version notes: v0 lists client metrics only. v1 resource types; none means all.
"""

from typing import Final

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

from barnabas.api.context import Call
from barnabas.api.shared import ResourceType
from barnabas.api.typed import NO_THROTTLE, i8
from barnabas.model.errors import ErrorCode

_TYPES_FROM: Final = 1


def handle(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Everything of the asked types."""
    if call.version < _TYPES_FROM:
        return _answer()
    wanted: set[int] = set(request.resource_types) or set(ResourceType)
    if not wanted <= set(ResourceType):
        return _answer(error=ErrorCode.unsupported_version)
    image = call.services.cluster.image
    found: list[ConfigResource] = []
    if ResourceType.BROKER in wanted:
        found += [_resource(ResourceType.BROKER, str(number)) for number in image.brokers]
    if ResourceType.TOPIC in wanted:
        found += [_resource(ResourceType.TOPIC, name) for name in image.topics]
    return _answer(tuple(found))


def _resource(kind: ResourceType, name: str) -> ConfigResource:
    return ConfigResource(resource_name=name, resource_type=i8(kind))


def _answer(
    found: tuple[ConfigResource, ...] = (), error: ErrorCode = ErrorCode.none
) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE, error_code=error, config_resources=found
    )
