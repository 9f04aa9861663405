"""DescribeCluster (60) at a controller: the controllers of the cluster (KIP-919).

Only brokers describe brokers; version 0 cannot request controllers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.errors import OperationError
from crabka.metadata.features import CONTROLLER_REGISTRATION_LEVEL
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.authorized_operations import CLUSTER_OPERATIONS, UNASKED_OPERATIONS

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


_BROKER, _CONTROLLER = 1, 2
_FIRST_VERSION_WITH_ENDPOINT_TYPE = 1
_NO_CONTROLLER = -1


def handle(context: ControllerContext, request: Request) -> Any:
    """Describe the registered controllers as seen through the listener that the client used."""
    image, body = context.image, request.body
    if image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        raise OperationError(
            ErrorCode.unsupported_version,
            "Direct-to-controller communication is not supported with the current MetadataVersion.",
        )
    wanted = getattr(body, "endpoint_type", _BROKER)
    if wanted != _CONTROLLER:
        return _refused(request, wanted)
    endpoints = {
        node_id: endpoint
        for node_id, controller in sorted(image.cluster.controllers.items())
        for endpoint in controller.endpoints
        if endpoint.name == request.connection.listener
    }
    leader_id = context.quorum.leader.leader_id
    types = response_types(request.api_key, request.version)
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=_CONTROLLER,
        cluster_id=context.cluster_id,
        # A leader that has not registered could not be found by the client.
        controller_id=leader_id if leader_id in endpoints else _NO_CONTROLLER,
        brokers=[
            types.new(
                "DescribeClusterBroker",
                broker_id=node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=None,
                is_fenced=False,
            )
            for node_id, endpoint in endpoints.items()
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if body.include_cluster_authorized_operations
        else UNASKED_OPERATIONS,
    )


def _refused(request: Request, wanted: int) -> Any:
    if wanted == _BROKER:
        code, message = (
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER",
        )
    else:
        code, message = ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {wanted}"
    if request.version < _FIRST_VERSION_WITH_ENDPOINT_TYPE:
        code = ErrorCode.invalid_request
    types = response_types(request.api_key, request.version)
    return types.message(
        throttle_time=0,
        error_code=code,
        error_message=message,
        endpoint_type=_BROKER,
        cluster_id="",
        controller_id=_NO_CONTROLLER,
        brokers=(),
        cluster_authorized_operations=UNASKED_OPERATIONS,
    )
