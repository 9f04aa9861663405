"""DescribeTopicPartitions (75): topics in pages, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.cluster_view import INTERNAL_TOPICS, leader_of, offline_replicas, partition_error
from crabka.ids import ZERO_UUID
from crabka.metadata.topic_names import is_legal_topic_name
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.authorized_operations import TOPIC_OPERATIONS, UNASKED_OPERATIONS

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.metadata.topics import PartitionImage, TopicImage
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request


def handle(context: BrokerContext, request: Request) -> Any:
    """Describe the asked topics (all if none is named) in name order, from the cursor on."""
    types = response_types(request.api_key, request.version)
    body = request.body
    names, first_partition = _page_start(context, body)
    # A page of nothing would make the client ask for ever.
    budget = max(1, min(body.response_partition_limit, context.config.max_request_partition_size_limit))
    topics: list[Any] = []
    cursor = None
    for name in names:
        if budget == 0:
            cursor = types.new("Cursor", topic_name=name, partition_index=0)
            break
        topic = context.image.topics.by_name.get(name)
        if topic is None:
            topics.append(_missing_row(types, name))
            continue
        indexes = [index for index in sorted(topic.partitions) if index >= first_partition]
        first_partition = 0
        page, rest = indexes[:budget], indexes[budget:]
        budget -= len(page)
        topics.append(_topic_row(context, types, topic, page))
        if rest:
            cursor = types.new("Cursor", topic_name=name, partition_index=rest[0])
            break
    return types.message(throttle_time=0, topics=topics, next_cursor=cursor)


def _page_start(context: BrokerContext, body: Any) -> tuple[list[str], int]:
    asked = {topic.name for topic in body.topics} or set(context.image.topics.by_name)
    if body.cursor is None:
        return sorted(asked), 0
    cursor = body.cursor
    names = sorted(name for name in asked if name >= cursor.topic_name)
    starts_inside = bool(names) and names[0] == cursor.topic_name
    return names, cursor.partition_index if starts_inside else 0


def _missing_row(types: MessageTypes, name: str) -> Any:
    legal = is_legal_topic_name(name)
    return types.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.unknown_topic_or_partition if legal else ErrorCode.invalid_topic_exception,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=UNASKED_OPERATIONS,
    )


def _topic_row(context: BrokerContext, types: MessageTypes, topic: TopicImage, indexes: list[int]) -> Any:
    return types.new(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition_row(context, types, index, topic.partitions[index]) for index in indexes],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition_row(context: BrokerContext, types: MessageTypes, index: int, partition: PartitionImage) -> Any:
    return types.new(
        "DescribeTopicPartitionsResponsePartition",
        error_code=partition_error(context.image, partition),
        partition_index=index,
        leader_id=leader_of(context.image, partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=offline_replicas(context.image, partition),
    )
