"""ListConfigResources (74): names of resources that have settings (KIP-1142); version 0 knows client metrics only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.metadata.configs import ConfigResourceType
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

_ALL_TYPES = frozenset(ConfigResourceType)


def handle(context: BrokerContext, request: Request) -> Any:
    """List resources of the asked types, of all types if none is named."""
    types = response_types(request.api_key, request.version)
    if request.version == 0:
        wanted = frozenset({int(ConfigResourceType.CLIENT_METRICS)})
    else:
        wanted = frozenset(request.body.resource_types) or _ALL_TYPES
    if not wanted <= _ALL_TYPES:
        return types.message(throttle_time=0, error_code=ErrorCode.unsupported_version, config_resources=())
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        config_resources=[
            types.new("ConfigResource", resource_name=name, resource_type=resource_type)
            for resource_type, name in sorted(_resources(context))
            if resource_type in wanted
        ],
    )


def _resources(context: BrokerContext) -> set[tuple[int, str]]:
    image = context.image
    found = {(int(ConfigResourceType.TOPIC), name) for name in image.topics.by_name}
    for broker_id in image.cluster.brokers:
        found.add((int(ConfigResourceType.BROKER), str(broker_id)))
        found.add((int(ConfigResourceType.BROKER_LOGGER), str(broker_id)))
    stored = (ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP)
    found.update((kind, name) for kind, name in image.configs.resources if kind in stored)
    return found
