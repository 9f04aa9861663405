"""Guards of Metadata and DescribeTopicPartitions: what a client may not describe it does not see.

A topic that is asked for by name or id is refused; in an answer about all topics it is left out.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from crabka.broker.cluster_view import INTERNAL_TOPICS
from crabka.broker.guards.topic_rows import DENIED, topic_name
from crabka.broker.handlers import metadata as metadata_handler
from crabka.ids import ZERO_UUID
from crabka.protocol.apis import MessageTypes, request_types, response_types
from crabka.security.acls import Operation, ResourceType
from crabka.serving.access.guard import Admission, Answered, Check, Row, with_body
from crabka.serving.authorized_operations import UNASKED_OPERATIONS

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

_TOPIC = ResourceType.TOPIC


async def metadata(access: Access, context: BrokerContext, request: Request) -> Any:
    """Describe the visible topics; create missing ones only if the client may."""
    if metadata_handler.is_illegal(request):
        return await metadata_handler.handle(context, request)
    body, types = request.body, response_types(request.api_key, request.version)
    by_name = context.image.topics.by_name
    if metadata_handler.asks_for_all(request):
        visible = access.allowed(request, Operation.DESCRIBE, _TOPIC, by_name, logs_denial=False)
        refused: list[Any] = []
    else:
        named = [(topic, topic_name(context, topic)) for topic in body.topics]
        names = {name for _, name in named if name is not None}
        visible = access.allowed(request, Operation.DESCRIBE, _TOPIC, names)
        refused = [_refused(types, topic) for topic, name in named if name is not None and name not in visible]
        missing = {name for name in visible if name not in by_name}
        if missing and metadata_handler.may_create(context, request):
            uncreatable = missing - _creatable(access, request, missing)
            visible -= uncreatable
            refused += [_uncreatable(types, name) for name in sorted(uncreatable)]
        admitted = [topic for topic, name in named if name is None or name in visible]
        request = with_body(request, topics=tuple(admitted))
    view = metadata_handler.View(frozenset(visible), refused, {}, UNASKED_OPERATIONS)
    if getattr(body, "include_topic_authorized_operations", False):
        view = view._replace(operations={name: access.operations(request, _TOPIC, name) for name in visible})
    if getattr(body, "include_cluster_authorized_operations", False):
        view = view._replace(cluster_operations=access.cluster_operations(request))
    return await metadata_handler.describe(context, request, view)


def _creatable(access: Access, request: Request, names: set[str]) -> set[str]:
    if access.allows_cluster(request, Operation.CREATE, logs_denial=False):
        return names
    return access.allowed(request, Operation.CREATE, _TOPIC, names)


def _refused(types: MessageTypes, topic: Any) -> Any:
    """Refuse a topic in the way in which it was named; an id is no secret, but its name is."""
    topic_id = getattr(topic, "topic_id", None)
    by_id = topic_id is not None and topic_id != ZERO_UUID
    return _row(types, None if by_id else topic.name, topic_id if by_id else ZERO_UUID, is_internal=False)


def _uncreatable(types: MessageTypes, name: str) -> Any:
    return _row(types, name, ZERO_UUID, is_internal=name in INTERNAL_TOPICS)


def _row(types: MessageTypes, name: str | None, topic_id: Any, *, is_internal: bool) -> Any:
    return types.new(
        "MetadataResponseTopic",
        error_code=DENIED,
        name=name,
        topic_id=topic_id,
        is_internal=is_internal,
        partitions=(),
        topic_authorized_operations=UNASKED_OPERATIONS,
    )


def _describe_topic_partitions(access: Access, context: BrokerContext, request: Request) -> Admission | Answered:
    types, body = response_types(request.api_key, request.version), request.body
    first = "" if body.cursor is None else body.cursor.topic_name
    asked = {topic.name for topic in body.topics}
    names = {name for name in asked or context.image.topics.by_name if name >= first}
    visible = access.allowed(request, Operation.DESCRIBE, _TOPIC, names)
    refused = [
        types.new(
            "DescribeTopicPartitionsResponseTopic",
            error_code=DENIED,
            name=name,
            topic_id=ZERO_UUID,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=UNASKED_OPERATIONS,
        )
        for name in sorted(asked & (names - visible))
    ]
    if not visible:
        return Answered(types.message(throttle_time=0, topics=refused, next_cursor=None))

    def finish(response: Any) -> Any:
        described = [
            dataclasses.replace(row, topic_authorized_operations=access.operations(request, _TOPIC, row.name))
            for row in response.topics
        ]
        return dataclasses.replace(response, topics=(*described, *refused))

    topics = {topic.name: topic for topic in body.topics}
    rows = tuple(topics.get(name) or _topic_request(request, name) for name in sorted(visible))
    return Admission(with_body(request, topics=rows), finish)


def _topic_request(request: Request, name: str) -> Any:
    return request_types(request.api_key, request.version).new("TopicRequest", name=name)


_DESCRIBE = Check(Operation.DESCRIBE, "Topic", "TOPIC_AUTHORIZATION_FAILED, or left out where all topics are asked for")
METADATA = Row(
    (
        _DESCRIBE,
        Check(Operation.CREATE, "Cluster", "the next check", "to create missing topics"),
        Check(Operation.CREATE, "Topic", "TOPIC_AUTHORIZATION_FAILED", "to create missing topics"),
        Check(Operation.DESCRIBE, "Cluster", "0", "authorized operations of the cluster"),
    ),
    handle=metadata,
)
DESCRIBE_TOPIC_PARTITIONS = Row((_DESCRIBE,), _describe_topic_partitions)
