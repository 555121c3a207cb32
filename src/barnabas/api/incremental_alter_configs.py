"""IncrementalAlterConfigs: v0-1

Behaviour: single settings of each resource are set, unset, or (lists) added to and taken from.
A resource changes entirely or, with the reason, not at all; one named twice is refused.

Version notes: v1 flexible.
"""

from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from barnabas.api.commits import results_of
from barnabas.api.context import Call
from barnabas.api.typed import NO_THROTTLE, i8
from barnabas.cluster.configs import (
    AlterResult,
    ConfigEdit,
    ConfigResource,
    IncrementalChange,
)


async def handle(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """One result for each resource, in order."""
    changes = [
        IncrementalChange(
            ConfigResource(each.resource_type, each.resource_name),
            [ConfigEdit(edit.name, edit.config_operation, edit.value) for edit in each.configs],
        )
        for each in request.resources
    ]
    results = await results_of(
        call.services.cluster.incremental_alter_configs(
            changes, validate_only=request.validate_only
        ),
        lambda error: [AlterResult(each.resource, error.code, error.message) for each in changes],
    )
    return IncrementalAlterConfigsResponse(
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
