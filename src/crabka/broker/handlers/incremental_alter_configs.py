"""IncrementalAlterConfigs (44): levels of loggers change here, all else at the controller (KIP-339, KIP-412)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.controller_link.config_forwarding import forward_changes, verdict_rows
from crabka.config.alter import ConfigOp
from crabka.metadata.configs import ConfigResource
from crabka.metadata.requests import ResourceChange
from crabka.protocol.apis import ApiKey, response_types
from crabka.serving.log_levels import change_loggers

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.metadata.requests import ItemVerdict
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request


async def handle(context: BrokerContext, request: Request) -> Any:
    """Change every resource that can be changed; the changes are in force when the answer comes."""

    def change(resource: Any) -> ItemVerdict:
        wanted = ResourceChange(
            ConfigResource(resource.resource_type, resource.resource_name),
            [ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        return change_loggers(context.static_config, wanted, validate_only=request.body.validate_only)

    verdicts = await forward_changes(context, ApiKey.INCREMENTAL_ALTER_CONFIGS, request.body, row=_row, loggers=change)
    types = response_types(request.api_key, request.version)
    return types.message(throttle_time=0, responses=verdict_rows(types, verdicts))


def _row(types: MessageTypes, config: Any) -> Any:
    return types.new("AlterableConfig", name=config.name, config_operation=config.config_operation, value=config.value)
