"""OffsetDelete (47): forgets offsets of topics that no member of the group subscribes to (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.coordinators.appender import coordinator_error
from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.offsets import Place
    from crabka.broker.groups.shard import HostedShard
    from crabka.serving.request import Request


async def handle(context: BrokerContext, request: Request) -> Any:
    """Write tombstones of the offsets that may go."""
    types = response_types(request.api_key, request.version)
    body = request.body
    try:
        hosted, group = _find(context, body.group_id)
        topics = await _delete(context, hosted, group, body)
    except OperationError as error:
        return types.message(throttle_time=0, error_code=error.error_code, topics=())
    rows = [
        types.new(
            "OffsetDeleteResponseTopic",
            name=name,
            partitions=[
                types.new("OffsetDeleteResponsePartition", partition_index=index, error_code=error_code)
                for index, error_code in partitions
            ],
        )
        for name, partitions in topics
    ]
    return types.message(throttle_time=0, error_code=ErrorCode.none, topics=rows)


def _find(context: BrokerContext, group_id: str) -> tuple[HostedShard, ClassicGroup | ConsumerGroup]:
    if not group_id:
        raise OperationError(ErrorCode.invalid_group_id)
    hosted, group = context.groups.group(group_id)
    if not isinstance(group, ClassicGroup | ConsumerGroup):
        raise OperationError(ErrorCode.group_id_not_found)
    if isinstance(group, ClassicGroup) and not group.is_empty and not group.membership.uses_consumer_protocol:
        raise OperationError(ErrorCode.non_empty_group)
    return hosted, group


async def _delete(
    context: BrokerContext, hosted: HostedShard, group: ClassicGroup | ConsumerGroup, body: Any
) -> list[tuple[str, list[tuple[int, ErrorCode]]]]:
    topics, places = [], []
    for topic in body.topics:
        known = context.image.topics.by_name.get(topic.name)
        is_subscribed = not group.is_empty and group.is_subscribed_to(topic.name)
        rows = []
        for each in topic.partitions:
            index, error_code = each.partition_index, ErrorCode.none
            if known is None or index not in known.partitions:
                error_code = ErrorCode.unknown_topic_or_partition
            elif is_subscribed:
                error_code = ErrorCode.group_subscribed_to_topic
            elif _has_offset(hosted, group.group_id, (topic.name, index)):
                places.append((group.group_id, (topic.name, index)))
            rows.append((index, error_code))
        topics.append((topic.name, rows))
    if places:
        reply = PendingReply()
        context.groups.remove_offsets(hosted, places, reply.resolve)
        error_code = coordinator_error(await context.groups.wait_stored(reply))
        if error_code is not ErrorCode.none:
            raise OperationError(error_code)
    return topics


def _has_offset(hosted: HostedShard, group_id: str, place: Place) -> bool:
    offsets = hosted.shard.offsets
    return offsets.get(group_id, place) is not None or offsets.is_pending(group_id, place)
