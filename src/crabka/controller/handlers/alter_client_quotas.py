"""AlterClientQuotas (49): stores quotas, which brokers enforce (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.quotas import QuotaChange, alter_quotas
from crabka.protocol.apis import response_types

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Write the changes of every valid entity."""
    types = response_types(request.api_key, request.version)
    body = request.body
    changes = [
        QuotaChange(
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            {op.key: None if op.remove else op.value for op in entry.ops},
        )
        for entry in body.entries
    ]
    verdicts = await context.metadata_writer.submit(
        lambda image: alter_quotas(image, changes, validate_only=body.validate_only)
    )
    return types.message(
        throttle_time=0,
        entries=[
            types.new(
                "EntryData",
                error_code=verdict.error_code,
                error_message=verdict.message,
                entity=[types.new("EntityData", entity_type=kind, entity_name=name) for kind, name in change.entity],
            )
            for change, verdict in zip(changes, verdicts, strict=True)
        ],
    )
