"""Metadata (3): brokers, topics and partitions; creates topics that are missing if it may.

A null topic list asks for everything (an empty one in version 0). From version 12 topics may be named by id. An answer
with very many partitions is made in a thread.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.broker.cluster_view import INTERNAL_TOPICS, alive_endpoints, leader_of, offline_replicas, partition_error
from crabka.broker.controller_link.auto_create import create_missing_topics
from crabka.ids import ZERO_UUID
from crabka.metadata.topic_names import is_legal_topic_name
from crabka.metadata.topics import NO_LEADER
from crabka.protocol.apis import encode_response, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNASKED_OPERATIONS
from crabka.serving.request import EncodedAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from crabka.broker.context import BrokerContext
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage, TopicImage
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request


_FIRST_VERSION_WITH_IDS = 12
# At some ten microseconds each the loop would be kept for longer than others should wait.
PARTITIONS_ON_LOOP: Final = 1000


class View(NamedTuple):
    """What a client may see, where that is not everything."""

    names: frozenset[str]
    # Rows of topics that it asked for and may not see.
    refused: Sequence[Any]
    # What it may do with each topic, if it asked for that.
    operations: Mapping[str, int]
    cluster_operations: int


async def handle(context: BrokerContext, request: Request) -> Any:
    """Describe the asked topics, after creating missing ones if the request and the node allow it."""
    return await describe(context, request, None)


async def describe(context: BrokerContext, request: Request, view: View | None) -> Any:
    """Answer `handle`; `view` leaves out what the client may not see."""
    types = response_types(request.api_key, request.version)
    body = request.body
    errors: dict[str, ErrorCode] = {}
    if is_illegal(request):
        return _refusal(types, body)
    names = _missing_names(context, body)
    if names and may_create(context, request):
        errors = await create_missing_topics(context, names)
    if _partition_count(context, body, request.version) > PARTITIONS_ON_LOOP:
        build = functools.partial(_answer, context, context.image, request, errors, view)
        return await context.request_threads.submit(lambda: EncodedAnswer(encode_response(build())))
    return _answer(context, context.image, request, errors, view)


def is_illegal(request: Request) -> bool:
    """Return whether topics are requested by id before the version that can."""
    return request.version < _FIRST_VERSION_WITH_IDS and _names_by_id(request.body)


def asks_for_all(request: Request) -> bool:
    """Return whether all topics are requested."""
    return request.body.topics is None or (request.version == 0 and not request.body.topics)


def may_create(context: BrokerContext, request: Request) -> bool:
    """Return whether the request and the node allow that missing topics are created."""
    return getattr(request.body, "allow_auto_topic_creation", True) and context.config.auto_create_topics_enable


def _partition_count(context: BrokerContext, body: Any, version: int) -> int:
    """Return how many partitions are asked for, as far as that matters."""
    count = 0
    for topic in _asked_topics(context.image, body, version):
        count += len(topic.partitions) if not isinstance(topic, _Missing) else 1
        if count > PARTITIONS_ON_LOOP:
            break
    return count


def _answer(
    context: BrokerContext, image: MetadataImage, request: Request, errors: dict[str, ErrorCode], view: View | None
) -> Any:
    """Build the response. Looks only at the image and at what never changes, so that it may run in a thread."""
    body, types = request.body, response_types(request.api_key, request.version)
    with_operations = getattr(body, "include_topic_authorized_operations", False)
    operations = TOPIC_OPERATIONS if with_operations else UNASKED_OPERATIONS
    with_cluster_operations = getattr(body, "include_cluster_authorized_operations", False)
    cluster_operations = CLUSTER_OPERATIONS if with_cluster_operations else UNASKED_OPERATIONS
    rows = []
    for topic in _asked_topics(image, body, request.version):
        if isinstance(topic, _Missing):
            allowed = operations if view is None else view.operations.get(topic.name or "", UNASKED_OPERATIONS)
            rows.append(_missing_row(types, topic, errors, allowed))
        elif view is None:
            rows.append(_topic_row(image, types, topic, operations))
        elif topic.name in view.names:
            rows.append(_topic_row(image, types, topic, view.operations.get(topic.name, UNASKED_OPERATIONS)))
    if view is not None:
        rows += view.refused
        cluster_operations = view.cluster_operations
    return types.message(
        throttle_time=0,
        brokers=[
            types.new("MetadataResponseBroker", node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in alive_endpoints(image, request.connection.listener)
        ],
        cluster_id=context.cluster_id,
        controller_id=context.node_id,
        topics=rows,
        cluster_authorized_operations=cluster_operations,
        error_code=ErrorCode.none,
    )


def _names_by_id(body: Any) -> bool:
    """Return whether topics are requested by id; versions 10 and 11 have the field, but must not use it."""
    return any(
        topic.name is None or getattr(topic, "topic_id", None) not in (None, ZERO_UUID) for topic in body.topics or ()
    )


def _refusal(types: MessageTypes, body: Any) -> Any:
    rows = [
        types.new(
            "MetadataResponseTopic",
            error_code=ErrorCode.invalid_request,
            name=topic.name or "",
            topic_id=topic.topic_id,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=UNASKED_OPERATIONS,
        )
        for topic in body.topics
    ]
    return types.message(
        throttle_time=0,
        brokers=(),
        cluster_id=None,
        controller_id=NO_LEADER,
        topics=rows,
        cluster_authorized_operations=UNASKED_OPERATIONS,
        error_code=ErrorCode.invalid_request,
    )


class _Missing:
    """A topic that was asked for and does not exist."""

    __slots__ = ("name", "topic_id")

    def __init__(self, name: str | None, topic_id: Any) -> None:
        self.name = name
        self.topic_id = topic_id


def _missing_names(context: BrokerContext, body: Any) -> list[str]:
    known = context.image.topics.by_name
    return [topic.name for topic in body.topics or () if topic.name is not None and topic.name not in known]


def _asked_topics(image: MetadataImage, body: Any, version: int) -> Iterable[TopicImage | _Missing]:
    topics = image.topics
    if body.topics is None or (version == 0 and not body.topics):
        yield from topics.by_name.values()
        return
    for wanted in body.topics:
        topic_id = getattr(wanted, "topic_id", None)
        if topic_id is not None and topic_id != ZERO_UUID:
            found = topics.by_id.get(topic_id)
        else:
            found = topics.by_name.get(wanted.name)
        yield found if found is not None else _Missing(wanted.name, topic_id)


def _missing_row(types: MessageTypes, topic: _Missing, errors: dict[str, ErrorCode], operations: int) -> Any:
    if topic.name is None:
        error_code, operations = ErrorCode.unknown_topic_id, UNASKED_OPERATIONS
    elif not is_legal_topic_name(topic.name):
        error_code = ErrorCode.invalid_topic_exception
    else:
        error_code = errors.get(topic.name, ErrorCode.unknown_topic_or_partition)
    return types.new(
        "MetadataResponseTopic",
        error_code=error_code,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _topic_row(image: MetadataImage, types: MessageTypes, topic: TopicImage, operations: int) -> Any:
    return types.new(
        "MetadataResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition_row(image, types, index, partition) for index, partition in sorted(topic.partitions.items())
        ],
        topic_authorized_operations=operations,
    )


def _partition_row(image: MetadataImage, types: MessageTypes, index: int, partition: PartitionImage) -> Any:
    return types.new(
        "MetadataResponsePartition",
        error_code=partition_error(image, partition),
        partition_index=index,
        leader_id=leader_of(image, partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline_replicas(image, partition),
    )
