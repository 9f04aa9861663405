"""ConsumerGroupHeartbeat (68): a member of a consumer group joins, reports, learns its assignment or leaves (KIP-848).

From version 1 on members bring their own id and may subscribe by pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH
from crabka.broker.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatResult
from crabka.errors import OperationError
from crabka.metadata.features import GROUP_VERSION
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.message_types import ms

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

FIRST_VERSION_WITH_MEMBER_ID = 1


async def handle(context: BrokerContext, request: Request) -> Any:
    """Step the group and wait until it answers."""
    reply = PendingReply()
    try:
        check_protocol(context)
        _check(context, request)
        result = await context.groups.consumers.heartbeat(request.body.group_id, _event(context, request, reply))
    except OperationError as error:
        result = ConsumerHeartbeatResult(error.error_code, str(error))
    return _response(request, result)


def check_protocol(context: BrokerContext) -> None:
    """Raise OperationError: UNSUPPORTED_VERSION if this cluster does not run consumer groups."""
    protocols = context.config.group_coordinator_rebalance_protocols
    if "consumer" not in protocols or context.image.features.level(GROUP_VERSION) < 1:
        raise OperationError(ErrorCode.unsupported_version, "The consumer group protocol is not enabled.")


def _check(context: BrokerContext, request: Request) -> None:
    body, epoch = request.body, request.body.member_epoch
    if request.version >= FIRST_VERSION_WITH_MEMBER_ID or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
        _require(body.member_id.strip(), "MemberId can't be empty.")
    _require(body.group_id.strip(), "GroupId can't be empty.")
    _require(body.instance_id is None or body.instance_id.strip(), "InstanceId can't be empty.")
    _require(body.rack_id is None or body.rack_id.strip(), "RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        _require(ms(body.rebalance_timeout) != -1, "RebalanceTimeoutMs must be provided in first request.")
        _require(body.topic_partitions == (), "TopicPartitions must be empty when (re-)joining.")
        subscribes = (
            body.subscribed_topic_names is not None or getattr(body, "subscribed_topic_regex", None) is not None
        )
        _require(subscribes, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == STATIC_LEAVING_EPOCH:
        _require(body.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(epoch >= LEAVING_EPOCH, "MemberEpoch is invalid.")
    offered = context.groups.consumer_settings(body.group_id).assignors
    if body.server_assignor is not None and body.server_assignor not in offered:
        message = f"ServerAssignor {body.server_assignor} is not supported. Supported assignors: {', '.join(offered)}."
        raise OperationError(ErrorCode.unsupported_assignor, message)


def _require(holds: object, message: str) -> None:
    if not holds:
        raise OperationError(ErrorCode.invalid_request, message)


def _event(context: BrokerContext, request: Request, reply: PendingReply) -> ConsumerHeartbeat:
    body = request.body
    names, owned = body.subscribed_topic_names, body.topic_partitions
    return ConsumerHeartbeat(
        reply=reply,
        member_id=body.member_id or str(context.runtime.new_uuid()),
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        client_id=request.client_id or "",
        client_host=f"/{request.connection.peer_host}",
        rebalance_timeout_ms=ms(body.rebalance_timeout),
        topic_names=None if names is None else tuple(str(each) for each in names),
        topic_regex=getattr(body, "subscribed_topic_regex", None),
        server_assignor=body.server_assignor,
        owned=None
        if owned is None
        else {each.topic_id: frozenset(each.partitions) for each in owned if each.topic_id is not None},
    )


def _response(request: Request, result: ConsumerHeartbeatResult) -> Any:
    types = response_types(request.api_key, request.version)
    assignment = None
    if result.assignment is not None:
        topics = [
            types.new("TopicPartitions", topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in result.assignment.items()
        ]
        assignment = types.new("Assignment", topic_partitions=topics)
    return types.message(
        throttle_time=0,
        error_code=result.error_code,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=result.heartbeat_interval_ms,
        assignment=assignment,
    )
