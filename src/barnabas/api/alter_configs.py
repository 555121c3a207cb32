"""AlterConfigs: v0-2

Behaviour: the settings of each resource are replaced as a whole: what is not named is unset. A
resource changes entirely or, with the reason, not at all; one named twice is refused. Clients
should prefer IncrementalAlterConfigs, which can not unset by oversight.

Version notes: v2 flexible.
"""

from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse

from barnabas.api.commits import results_of
from barnabas.api.context import Call
from barnabas.api.typed import NO_THROTTLE, i8
from barnabas.cluster.configs import AlterResult, ConfigResource, FullChange


async def handle(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """One result for each resource, in order."""
    changes = [
        FullChange(
            ConfigResource(each.resource_type, each.resource_name),
            [(config.name, config.value) for config in each.configs],
        )
        for each in request.resources
    ]
    results = await results_of(
        call.services.cluster.alter_configs(changes, validate_only=request.validate_only),
        lambda error: [AlterResult(each.resource, error.code, error.message) for each in changes],
    )
    return AlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=each.code,
                error_message=each.message,
                resource_type=i8(each.resource.type),
                resource_name=each.resource.name,
            )
            for each in results
        ),
    )
