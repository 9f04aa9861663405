"""AssignReplicasToDirs (73): a broker reports the log dirs of its replicas (KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.replica_directories import ReplicaPlacement, assign_replicas
from crabka.ids import ZERO_UUID
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.controller.context import ControllerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Record the placements; a row for each, in the order of the request."""
    body = request.body
    placements = [
        ReplicaPlacement(directory.id_ or ZERO_UUID, topic.topic_id or ZERO_UUID, partition.partition_index)
        for directory in body.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    decided = await context.metadata_writer.submit(
        lambda image: assign_replicas(
            image, context.rules, placements, broker_id=body.broker_id, broker_epoch=body.broker_epoch
        )
    )
    codes = iter(decided)
    types = response_types(request.api_key, request.version)
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        directories=[_directory_row(types, directory, codes) for directory in body.directories],
    )


def _directory_row(types: MessageTypes, directory: Any, codes: Iterator[ErrorCode]) -> Any:
    topics = [
        types.new(
            "TopicData",
            topic_id=topic.topic_id,
            partitions=[
                types.new("PartitionData", partition_index=partition.partition_index, error_code=next(codes))
                for partition in topic.partitions
            ],
        )
        for topic in directory.topics
    ]
    return types.new("DirectoryData", id_=directory.id_, topics=topics)
