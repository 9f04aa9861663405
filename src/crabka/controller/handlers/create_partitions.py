"""CreatePartitions (37): more partitions for topics that exist (KIP-195)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.partitions import MorePartitions, create_partitions
from crabka.protocol.apis import response_types

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


# From this version on clients know THROTTLING_QUOTA_EXCEEDED.
_FIRST_STRICT_VERSION = 3


async def handle(context: ControllerContext, request: Request) -> Any:
    """Add partitions; the answer is sent when they can be used."""
    types = response_types(request.api_key, request.version)
    body = request.body
    wanted = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [each.broker_ids for each in topic.assignments],
        )
        for topic in body.topics
    ]
    budget = context.mutation_quotas.budget(request, strict_from=_FIRST_STRICT_VERSION)
    rng = context.runtime.rng
    results = await context.metadata_writer.submit(
        lambda image: create_partitions(image, wanted, rng, validate_only=body.validate_only, charge=budget.charge)
    )
    return types.message(
        throttle_time=budget.throttle_ms,
        results=[
            types.new(
                "CreatePartitionsTopicResult", name=name, error_code=verdict.error_code, error_message=verdict.message
            )
            for name, verdict in results.items()
        ],
    )
