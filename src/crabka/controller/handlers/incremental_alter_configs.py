"""IncrementalAlterConfigs (44): sets, removes, appends to and subtracts from settings (KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.config.alter import ConfigOp
from crabka.controller.config_changes import change_configs
from crabka.metadata.configs import ConfigResource
from crabka.metadata.requests import ResourceChange
from crabka.protocol.apis import response_types

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Apply every valid change; the changes are in force when the answer is sent."""
    types = response_types(request.api_key, request.version)
    changes = [
        ResourceChange(
            ConfigResource(resource.resource_type, resource.resource_name),
            [ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.body.resources
    ]
    verdicts = await change_configs(context, changes, validate_only=request.body.validate_only)
    return types.message(
        throttle_time=0,
        responses=[
            types.new(
                "AlterConfigsResourceResponse",
                error_code=verdict.error_code,
                error_message=verdict.message,
                resource_type=change.resource.resource_type,
                resource_name=change.resource.name,
            )
            for change, verdict in zip(changes, verdicts, strict=True)
        ],
    )
