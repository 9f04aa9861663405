"""DescribeCluster (60): cluster id, controller and brokers (KIP-700); only broker endpoints are served here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.cluster_view import broker_endpoints
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.authorized_operations import CLUSTER_OPERATIONS, UNASKED_OPERATIONS

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

ENDPOINT_TYPE_BROKER = 1
ENDPOINT_TYPE_CONTROLLER = 2


def handle(context: BrokerContext, request: Request) -> Any:
    """Describe the cluster as seen through the listener that the client used."""
    types = response_types(request.api_key, request.version)
    body = request.body
    endpoint_type = getattr(body, "endpoint_type", ENDPOINT_TYPE_BROKER)
    if endpoint_type != ENDPOINT_TYPE_BROKER:
        return types.message(
            throttle_time=0,
            error_code=ErrorCode.mismatched_endpoint_type,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            + ("CONTROLLER" if endpoint_type == ENDPOINT_TYPE_CONTROLLER else "UNKNOWN"),
            endpoint_type=ENDPOINT_TYPE_BROKER,
            cluster_id="",
            controller_id=-1,
            brokers=(),
            cluster_authorized_operations=UNASKED_OPERATIONS,
        )
    with_fenced = getattr(body, "include_fenced_brokers", False)
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=ENDPOINT_TYPE_BROKER,
        cluster_id=context.cluster_id,
        controller_id=context.node_id,
        brokers=[
            types.new("DescribeClusterBroker", broker_id=node_id, host=host, port=port, rack=rack, is_fenced=fenced)
            for node_id, host, port, rack, fenced in broker_endpoints(context.image, request.connection.listener)
            if with_fenced or not fenced
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if body.include_cluster_authorized_operations
        else UNASKED_OPERATIONS,
    )
