"""AlterPartitionReassignments (45): other replicas for partitions, or none of the change (KIP-455).

From version 1 on a client can forbid a change of the replication factor (KIP-860).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.reassignments import Reassignment, alter_reassignments
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Start or cancel reassignments; the answer does not wait for their end."""
    types = response_types(request.api_key, request.version)
    body = request.body
    may_change = getattr(body, "allow_replication_factor_change", True)
    wanted = [
        Reassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in body.topics
        for partition in topic.partitions
    ]
    rules = context.rules
    results = await context.metadata_writer.submit(
        lambda image: alter_reassignments(image, rules, wanted, allow_replication_factor_change=may_change)
    )
    rows: dict[str, list[Any]] = {topic.name: [] for topic in body.topics}
    for result in results:
        rows[result.topic].append(
            types.new(
                "ReassignablePartitionResponse",
                partition_index=result.partition_id,
                error_code=result.verdict.error_code,
                error_message=result.verdict.message,
            )
        )
    return types.message(
        throttle_time=0,
        allow_replication_factor_change=may_change,
        error_code=ErrorCode.none,
        error_message=None,
        responses=[
            types.new("ReassignableTopicResponse", name=name, partitions=partitions)
            for name, partitions in rows.items()
        ],
    )
