"""ListPartitionReassignments (46): reassignments that are not complete (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.reassignments import list_reassignments
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


def handle(context: ControllerContext, request: Request) -> Any:
    """Answer for the given partitions, or for all; complete and unknown ones are left out."""
    types = response_types(request.api_key, request.version)
    topics = request.body.topics
    wanted = None if topics is None else [(topic.name, index) for topic in topics for index in topic.partition_indexes]
    rows: dict[str, list[Any]] = {}
    for each in list_reassignments(context.image, wanted):
        rows.setdefault(each.topic, []).append(
            types.new(
                "OngoingPartitionReassignment",
                partition_index=each.partition_id,
                replicas=each.replicas,
                adding_replicas=each.adding,
                removing_replicas=each.removing,
            )
        )
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        error_message=None,
        topics=[
            types.new("OngoingTopicReassignment", name=name, partitions=partitions) for name, partitions in rows.items()
        ],
    )
