"""OffsetFetch (9): what a group has committed.

Up to version 7 for one group, from version 8 for many; from version 10 topics are named by id. No topics (null) stand
for all. With `require_stable` a partition that an open transaction may change gets UNSTABLE_OFFSET_COMMIT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.opaque import OpaqueGroup
from crabka.errors import OperationError
from crabka.ids import ZERO_UUID
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable

    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.offsets import OffsetStore
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

FIRST_VERSION_WITH_MANY_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_VERSION_WITH_GROUP_ERROR = 2
NO_OFFSET = -1
NO_EPOCH = -1


def handle(context: BrokerContext, request: Request) -> Any:
    """Look the offsets up."""
    types = response_types(request.api_key, request.version)
    fetch = _Fetch(context, request, types)
    body = request.body
    if request.version >= FIRST_VERSION_WITH_MANY_GROUPS:
        return types.message(throttle_time=0, groups=[fetch.group_row(group) for group in body.groups])
    error_code, topics = fetch.rows(body.group_id, body.topics)
    return types.message(throttle_time=0, topics=topics, error_code=error_code)


class _Fetch:
    """One request on its way."""

    def __init__(self, context: BrokerContext, request: Request, types: MessageTypes) -> None:
        self._context = context
        self._version = request.version
        self._types = types
        self._require_stable = getattr(request.body, "require_stable", False)
        suffix = "s" if request.version >= FIRST_VERSION_WITH_MANY_GROUPS else ""
        self._topic_type = f"OffsetFetchResponseTopic{suffix}"
        self._partition_type = f"OffsetFetchResponsePartition{suffix}"

    def group_row(self, group: Any) -> Any:
        """Answer for one of many groups."""
        error_code, topics = self.rows(
            group.group_id, group.topics, getattr(group, "member_id", None), getattr(group, "member_epoch", NO_EPOCH)
        )
        return self._types.new(
            "OffsetFetchResponseGroup", group_id=group.group_id, topics=topics, error_code=error_code
        )

    def rows(
        self, group_id: str, topics: Any, member_id: str | None = None, member_epoch: int = NO_EPOCH
    ) -> tuple[ErrorCode, list[Any]]:
        """Return the error of a group and the rows of its topics."""
        try:
            offsets = self._offsets(group_id, member_id, member_epoch)
        except OperationError as error:
            if self._version >= FIRST_VERSION_WITH_GROUP_ERROR:
                return error.error_code, []
            return error.error_code, [self._refused(topic, error.error_code) for topic in topics]
        if topics is None:
            return ErrorCode.none, list(self._all(group_id, offsets))
        return ErrorCode.none, [self._asked(group_id, offsets, topic) for topic in topics]

    def _offsets(self, group_id: str, member_id: str | None, member_epoch: int) -> OffsetStore:
        hosted, group = self._context.groups.group(group_id)
        if isinstance(group, OpaqueGroup):
            raise OperationError(ErrorCode.group_id_not_found)
        if isinstance(group, ConsumerGroup):
            group.offset_checks.fetch(member_id, member_epoch)
        return hosted.shard.offsets

    def _all(self, group_id: str, offsets: OffsetStore) -> Iterable[Any]:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(offsets.of_group(group_id)):
            by_topic.setdefault(topic, []).append(index)
        for topic, indexes in by_topic.items():
            image = self._context.image.topics.by_name.get(topic)
            if self._version >= FIRST_VERSION_WITH_TOPIC_IDS and image is None:
                continue
            rows = [self._row(group_id, offsets, topic, index) for index in indexes]
            yield self._topic_row(topic, image.topic_id if image is not None else None, rows)

    def _asked(self, group_id: str, offsets: OffsetStore, topic: Any) -> Any:
        if self._version < FIRST_VERSION_WITH_TOPIC_IDS:
            name: str = topic.name
        else:
            image = self._context.image.topics.by_id.get(topic.topic_id or ZERO_UUID)
            if image is None:
                return self._refused(topic, ErrorCode.unknown_topic_id)
            name = image.name
        rows = [self._row(group_id, offsets, name, index) for index in topic.partition_indexes]
        return self._topic_row(getattr(topic, "name", None), getattr(topic, "topic_id", None), rows)

    def _row(self, group_id: str, offsets: OffsetStore, topic: str, index: int) -> Any:
        place = (topic, index)
        if self._require_stable and offsets.is_pending(group_id, place):
            return self._partition_row(index, error_code=ErrorCode.unstable_offset_commit)
        committed = offsets.get(group_id, place)
        if committed is None:
            return self._partition_row(index)
        return self._partition_row(
            index, offset=committed.offset, leader_epoch=committed.leader_epoch, metadata=committed.metadata
        )

    def _refused(self, topic: Any, error_code: ErrorCode) -> Any:
        rows = [self._partition_row(index, error_code=error_code) for index in topic.partition_indexes]
        return self._topic_row(getattr(topic, "name", None), getattr(topic, "topic_id", None), rows)

    def _topic_row(self, name: str | None, topic_id: uuid.UUID | None, rows: list[Any]) -> Any:
        if self._version < FIRST_VERSION_WITH_TOPIC_IDS:
            return self._types.new(self._topic_type, name=name, partitions=rows)
        return self._types.new(self._topic_type, topic_id=topic_id, partitions=rows)

    def _partition_row(
        self,
        index: int,
        *,
        offset: int = NO_OFFSET,
        leader_epoch: int = -1,
        metadata: str = "",
        error_code: ErrorCode = ErrorCode.none,
    ) -> Any:
        return self._types.new(
            self._partition_type,
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            metadata=metadata,
            error_code=error_code,
        )
