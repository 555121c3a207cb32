"""DescribeCluster: v0-2

Behaviour: the live brokers and the controller, which here is a broker too. There is no listener
for controllers alone, so who asks for those is told to ask for brokers.

Version notes: v1 endpoint type. v2 fenced brokers, of which there are none.
"""

from typing import Final

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse

from barnabas.api.context import Call
from barnabas.api.shared import CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED, live_brokers
from barnabas.api.typed import NO_THROTTLE, BrokerId, i32
from barnabas.model.errors import ErrorCode

_BROKERS, _CONTROLLERS = 1, 2

_MISMATCH: Final = (
    "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
    "CONTROLLER"
)


def handle(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Who is there."""
    if request.endpoint_type == _CONTROLLERS:
        return _refused(ErrorCode.mismatched_endpoint_type, _MISMATCH)
    if request.endpoint_type != _BROKERS:
        problem = f"Unsupported endpoint type {request.endpoint_type}"
        return _refused(ErrorCode.unsupported_endpoint_type, problem)
    image = call.services.cluster.image
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        cluster_id=image.cluster_id,
        controller_id=BrokerId(image.controller_id),
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=BrokerId(each.id),
                host=each.host,
                port=i32(each.port),
                rack=each.rack,
                is_fenced=False,
            )
            for each in live_brokers(call)
        ),
        cluster_authorized_operations=i32(CLUSTER_OPERATIONS if asked else OPERATIONS_NOT_ASKED),
    )


def _refused(error: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=message,
        cluster_id="",
        brokers=(),
    )
