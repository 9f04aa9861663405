"""ElectLeaders (43): preferred leaders (KIP-183) and, from version 1 on, unclean ones (KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.elect_leaders import ElectionType, elect_leaders
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.controller.decisions.elect_leaders import PartitionElection
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Hold the elections; without partitions in all topics, reporting only attempted elections."""
    body = request.body
    election_type = getattr(body, "election_type", ElectionType.PREFERRED)
    wanted = _partitions(body)
    results = await context.metadata_writer.submit(
        lambda image: elect_leaders(image, context.rules, election_type, wanted)
    )
    types = response_types(request.api_key, request.version)
    rows: dict[str, list[Any]] = {name: [] for name in _topics(context, body)}
    for result in results:
        rows.setdefault(result.topic, []).append(_row(types, result))
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        replica_election_results=[
            types.new("ReplicaElectionResult", topic=topic, partition_result=partitions)
            for topic, partitions in rows.items()
        ],
    )


def _partitions(body: Any) -> list[tuple[str, int]] | None:
    if body.topic_partitions is None:
        return None
    return [(topic.topic, index) for topic in body.topic_partitions for index in topic.partitions]


def _topics(context: ControllerContext, body: Any) -> list[str]:
    """Every topic has a row, also one without results."""
    if body.topic_partitions is None:
        return list(context.image.topics.by_name)
    return [topic.topic for topic in body.topic_partitions]


def _row(types: Any, result: PartitionElection) -> Any:
    return types.new(
        "PartitionResult",
        partition_id=result.partition_id,
        error_code=result.verdict.error_code,
        error_message=result.verdict.message,
    )
