"""OffsetCommit (8): stores how far a group has read.

Versions 2 to 4 may say how long the offsets are kept. From version 10 topics are named by id. A group that has no
members may commit without a generation: that makes a simple group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.coordinators.appender import coordinator_error
from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.messages import CommitAttempt
from crabka.broker.groups.offsets import CommitRow, commit_row
from crabka.broker.groups.records import offset_pair
from crabka.errors import OperationError
from crabka.ids import ZERO_UUID
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.message_types import ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.offsets import CommittedOffset, Place
    from crabka.broker.groups.shard import HostedShard
    from crabka.serving.request import Request

FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_VERSION_WITH_MEMBER_EPOCH = 9

_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)


async def handle(context: BrokerContext, request: Request) -> Any:
    """Check every partition, then store the good ones in one batch."""
    topics = [(topic, _rows(context, request, topic)) for topic in request.body.topics]
    commits = [row.commit for _, rows in topics for row in rows if row.commit is not None]
    error_code = ErrorCode.none
    if commits or not topics:
        try:
            error_code = await _commit(context, request, commits)
        except OperationError as error:
            error_code = error.error_code
    types = response_types(request.api_key, request.version)
    responses = [
        types.new(
            "OffsetCommitResponseTopic",
            name=getattr(topic, "name", None),
            topic_id=getattr(topic, "topic_id", None),
            partitions=[
                types.new(
                    "OffsetCommitResponsePartition",
                    partition_index=row.partition,
                    error_code=row.error_code if row.commit is None else error_code,
                )
                for row in rows
            ],
        )
        for topic, rows in topics
    ]
    return types.message(throttle_time=0, topics=responses)


def _rows(context: BrokerContext, request: Request, topic: Any) -> list[CommitRow]:
    by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics = context.image.topics
    found = topics.by_id.get(topic.topic_id or ZERO_UUID) if by_id else topics.by_name.get(topic.name)
    unknown = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    if found is None:
        return [CommitRow(each.partition_index, unknown) for each in topic.partitions]
    now_ms, max_length = context.runtime.clock.now_ms(), context.config.offset_metadata_max_bytes
    retention_ms = ms(getattr(request.body, "retention_time", None))
    return [
        commit_row(found, each, max_metadata_length=max_length, now_ms=now_ms, retention_ms=retention_ms)
        for each in topic.partitions
    ]


async def _commit(
    context: BrokerContext, request: Request, commits: Sequence[tuple[Place, CommittedOffset]]
) -> ErrorCode:
    group_id = request.body.group_id
    if group_id is None:
        return ErrorCode.invalid_group_id
    hosted = _accepting_shard(context, request, [place for place, _ in commits])
    if not commits:
        return ErrorCode.none
    reply = PendingReply()

    def stored(error_code: ErrorCode) -> None:
        # Here and not after the wait: offsets must be remembered in the order of the log.
        hosted.shard.end_commit(group_id)
        if error_code is ErrorCode.none:
            hosted.shard.simple_group(group_id, context.groups.now_ms())
            for place, committed in commits:
                hosted.shard.offsets.put(group_id, place, committed)
        reply.resolve(error_code)

    hosted.shard.begin_commit(group_id)
    context.groups.append(hosted, [offset_pair(group_id, place, committed) for place, committed in commits], stored)
    error_code = await context.groups.wait_stored(reply)
    return ErrorCode.invalid_commit_offset_size if error_code in _TOO_LARGE else coordinator_error(error_code)


def _accepting_shard(context: BrokerContext, request: Request, places: Sequence[Place]) -> HostedShard:
    """Return the shard of the group. Raises OperationError if the sender may not commit for the group."""
    body = request.body
    generation = body.generation_id_or_member_epoch
    hosted, group = context.groups.group(body.group_id)
    if group is None:
        if generation >= 0:
            is_new = request.version >= FIRST_VERSION_WITH_MEMBER_EPOCH
            raise OperationError(ErrorCode.group_id_not_found if is_new else ErrorCode.illegal_generation)
        return hosted
    if isinstance(group, ConsumerGroup):
        group.offset_checks.commit(body.member_id, generation, request.version).require(places)
        return hosted
    if not isinstance(group, ClassicGroup):
        raise OperationError(ErrorCode.group_id_not_found)
    error_code = context.groups.ask(
        hosted,
        group,
        lambda reply: CommitAttempt(
            reply=reply,
            member_id=body.member_id,
            instance_id=getattr(body, "group_instance_id", None),
            generation=generation,
        ),
    )
    if error_code is not ErrorCode.none:
        raise OperationError(error_code)
    return hosted
