"""UnregisterBroker (64): removes the registration of a broker that will not return (KIP-631)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.broker_changes import unregister_broker
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Drop the registration; a broker that still runs must register again."""
    await context.metadata_writer.submit(lambda image: unregister_broker(image, context.rules, request.body.broker_id))
    types = response_types(request.api_key, request.version)
    return types.message(throttle_time=0, error_code=ErrorCode.none, error_message="")
