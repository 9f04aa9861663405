"""Guards of APIs whose requests have a row for each topic: refused topics get an error, the others are handled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.ids import ZERO_UUID
from crabka.protocol.apis import MessageTypes, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Operation, ResourceType
from crabka.serving.access.guard import Admission, Answered, Check, Guard, Row, with_body

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

DENIED = ErrorCode.topic_authorization_failed
RefusedTopic = Callable[[MessageTypes, Any], Any]


class TopicRows(NamedTuple):
    """Where the topics of an API are, and how one is refused."""

    operation: Operation
    refused: RefusedTopic
    # Field of the topic's name.
    name: str = "name"
    # Fields of the response besides throttle time and topics.
    fields: tuple[tuple[str, Any], ...] = ()

    @property
    def row(self) -> Row:
        """The row of the table."""
        return Row((Check(self.operation, "Topic", DENIED.name.upper()),), self.guard)

    def guard(self, access: Access, context: BrokerContext, request: Request) -> Admission | Answered:
        """Admit the topics that the client may use."""
        wanted = request.body.topics
        names = [topic_name(context, topic, self.name) for topic in wanted]
        allowed = access.allowed(
            request, self.operation, ResourceType.TOPIC, (name for name in names if name is not None)
        )
        # A topic whose id is not known has no name: its handler says so.
        admitted = tuple(topic for topic, name in zip(wanted, names, strict=True) if name is None or name in allowed)
        if len(admitted) == len(wanted):
            return Admission(request)
        types = response_types(request.api_key, request.version)
        refused = tuple(
            self.refused(types, topic)
            for topic, name in zip(wanted, names, strict=True)
            if name is not None and name not in allowed
        )
        if not admitted:
            return Answered(types.message(throttle_time=0, topics=refused, **dict(self.fields)))

        def finish(response: Any) -> Any:
            if getattr(response, "error_code", ErrorCode.none) is not ErrorCode.none:
                return response
            return dataclasses.replace(response, topics=(*response.topics, *refused))

        return Admission(with_body(request, topics=admitted), finish)


def topic_name(context: BrokerContext, topic: Any, field: str = "name") -> str | None:
    """Return the name of a topic that a request names, perhaps by id; None if there is no such id."""
    topic_id = getattr(topic, "topic_id", None)
    if topic_id is not None and topic_id != ZERO_UUID:
        found = context.image.topics.by_id.get(topic_id)
        return None if found is None else found.name
    return getattr(topic, field, None)


def both(first: Guard, second: Guard) -> Guard:
    """Return a guard that asks a second one about what the first one admits; the first one must not change rows."""

    def guard(access: Access, context: Any, request: Request) -> Admission | Answered:
        admitted = first(access, context, request)
        return admitted if isinstance(admitted, Answered) else second(access, context, request)

    return guard


def _list_offsets(types: MessageTypes, topic: Any) -> Any:
    rows = [
        types.new(
            "ListOffsetsPartitionResponse",
            partition_index=each.partition_index,
            error_code=DENIED,
            timestamp=-1,
            offset=-1,
            leader_epoch=-1,
        )
        for each in topic.partitions
    ]
    return types.new("ListOffsetsTopicResponse", name=topic.name, partitions=rows)


def _delete_records(types: MessageTypes, topic: Any) -> Any:
    rows = [
        types.new(
            "DeleteRecordsPartitionResult", partition_index=each.partition_index, low_watermark=-1, error_code=DENIED
        )
        for each in topic.partitions
    ]
    return types.new("DeleteRecordsTopicResult", name=topic.name, partitions=rows)


def refused_epochs(types: MessageTypes, topic: Any) -> Any:
    """Refuse a topic of OffsetForLeaderEpoch."""
    rows = [
        types.new("EpochEndOffset", partition=each.partition, error_code=DENIED, leader_epoch=-1, end_offset=-1)
        for each in topic.partitions
    ]
    return types.new("OffsetForLeaderTopicResult", topic=topic.topic, partitions=rows)


def _describe_producers(types: MessageTypes, topic: Any) -> Any:
    rows = [
        types.new(
            "PartitionResponse", partition_index=index, error_code=DENIED, error_message=None, active_producers=()
        )
        for index in topic.partition_indexes
    ]
    return types.new("TopicResponse", name=topic.name, partitions=rows)


def _by_partition(prefix: str) -> RefusedTopic:
    """Return how a topic is refused where a partition has nothing but an error."""

    def refused(types: MessageTypes, topic: Any) -> Any:
        rows = [
            types.new(f"{prefix}ResponsePartition", partition_index=each.partition_index, error_code=DENIED)
            for each in topic.partitions
        ]
        fields = {"name": getattr(topic, "name", None), "topic_id": getattr(topic, "topic_id", None)}
        known = {key: value for key, value in fields.items() if types.has_field(f"{prefix}ResponseTopic", key)}
        return types.new(f"{prefix}ResponseTopic", partitions=rows, **known)

    return refused


LIST_OFFSETS = TopicRows(Operation.DESCRIBE, _list_offsets)
DELETE_RECORDS = TopicRows(Operation.DELETE, _delete_records)
DESCRIBE_PRODUCERS = TopicRows(Operation.READ, _describe_producers)
LEADER_EPOCHS = TopicRows(Operation.DESCRIBE, refused_epochs, name="topic")
OFFSET_COMMIT = TopicRows(Operation.READ, _by_partition("OffsetCommit"))
TXN_OFFSET_COMMIT = TopicRows(Operation.READ, _by_partition("TxnOffsetCommit"))
OFFSET_DELETE = TopicRows(Operation.READ, _by_partition("OffsetDelete"), fields=(("error_code", ErrorCode.none),))
