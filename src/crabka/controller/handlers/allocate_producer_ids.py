"""AllocateProducerIds (67): a block of producer ids for one broker (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.producer_ids import allocate_block
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Commit the block, then return it."""
    body = request.body
    block = await context.metadata_writer.submit(
        lambda image: allocate_block(image, broker_id=body.broker_id, broker_epoch=body.broker_epoch)
    )
    types = response_types(request.api_key, request.version)
    return types.message(
        throttle_time=0, error_code=ErrorCode.none, producer_id_start=block.first_id, producer_id_len=block.size
    )
