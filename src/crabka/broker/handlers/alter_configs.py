"""AlterConfigs (33): gives a resource exactly these settings; the controller decides, loggers are refused here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.controller_link.config_forwarding import forward_changes, verdict_rows
from crabka.metadata.requests import ItemVerdict
from crabka.protocol.apis import ApiKey, response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

_NO_LOGGERS = ItemVerdict(
    ErrorCode.invalid_request, "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"
)


async def handle(context: BrokerContext, request: Request) -> Any:
    """Replace the settings of every resource; loggers can only be changed incrementally, as in Kafka."""
    verdicts = await forward_changes(
        context, ApiKey.ALTER_CONFIGS, request.body, row=_row, loggers=lambda _resource: _NO_LOGGERS
    )
    types = response_types(request.api_key, request.version)
    return types.message(throttle_time=0, responses=verdict_rows(types, verdicts))


def _row(types: MessageTypes, config: Any) -> Any:
    return types.new("AlterableConfig", name=config.name, value=config.value)
