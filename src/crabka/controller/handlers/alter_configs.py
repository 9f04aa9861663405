"""AlterConfigs (33): replaces all settings of a resource; settings that are not named return to their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.config_changes import change_configs
from crabka.errors import OperationError
from crabka.metadata.configs import ConfigResource, ConfigResourceType
from crabka.metadata.requests import ItemVerdict, ResourceChange
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Replace the settings of every resource; loggers can only be changed incrementally, as in Kafka."""
    types = response_types(request.api_key, request.version)
    resources = [ConfigResource(each.resource_type, each.resource_name) for each in request.body.resources]
    changes = [
        ResourceChange(resource, replacement={config.name: config.value for config in each.configs})
        for resource, each in zip(resources, request.body.resources, strict=True)
        if resource.resource_type != ConfigResourceType.BROKER_LOGGER
    ]
    verdicts = iter(await change_configs(context, changes, validate_only=request.body.validate_only))
    refused = ItemVerdict.of(
        OperationError(
            ErrorCode.invalid_request, "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"
        )
    )
    rows = []
    for resource in resources:
        verdict = refused if resource.resource_type == ConfigResourceType.BROKER_LOGGER else next(verdicts)
        rows.append(
            types.new(
                "AlterConfigsResourceResponse",
                error_code=verdict.error_code,
                error_message=verdict.message,
                resource_type=resource.resource_type,
                resource_name=resource.name,
            )
        )
    return types.message(throttle_time=0, responses=rows)
