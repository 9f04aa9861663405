"""ControllerRegistration (70): a controller reports its endpoints and features at its start (KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.registration import ControllerApplication, admit_controller
from crabka.ids import ZERO_UUID
from crabka.metadata.cluster import endpoints_of, features_of
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Register the controller and replace its earlier registration."""
    body = request.body
    application = ControllerApplication(
        controller_id=body.controller_id,
        incarnation_id=body.incarnation_id or ZERO_UUID,
        endpoints=endpoints_of(body.listeners),
        features=features_of(body.features),
        zk_migration_ready=body.zk_migration_ready,
    )
    await context.metadata_writer.submit(lambda image: admit_controller(image, application))
    types = response_types(request.api_key, request.version)
    return types.message(throttle_time=0, error_code=ErrorCode.none, error_message="")
