"""OffsetForLeaderEpoch (23): where a leader epoch ended, so that clients detect truncation (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


def handle(context: BrokerContext, request: Request) -> Any:
    """Answer every partition from its leader epoch cache."""
    types = response_types(request.api_key, request.version)
    topics = []
    for topic in request.body.topics:
        rows = []
        for wanted in topic.partitions:
            error_code, epoch, end_offset = ErrorCode.none, UNDEFINED_EPOCH, UNDEFINED_OFFSET
            try:
                partition = context.partitions.by_name(topic.topic, wanted.partition)
                partition.require_leader(wanted.current_leader_epoch)
                epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
            except OperationError as error:
                error_code = error.error_code
            rows.append(
                types.new(
                    "EpochEndOffset",
                    error_code=error_code,
                    partition=wanted.partition,
                    leader_epoch=epoch,
                    end_offset=end_offset,
                )
            )
        topics.append(types.new("OffsetForLeaderTopicResult", topic=topic.topic, partitions=rows))
    return types.message(throttle_time=0, topics=topics)
