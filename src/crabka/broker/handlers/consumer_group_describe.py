"""ConsumerGroupDescribe (69): epochs, assignor and members of consumer groups (KIP-848).

From version 1 on the response has the protocol of each member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.handlers.consumer_group_heartbeat import check_protocol
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.authorized_operations import GROUP_OPERATIONS, UNASKED_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.consumer.member import ConsumerMember
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def handle(context: BrokerContext, request: Request) -> Any:
    """Describe every group."""
    types = response_types(request.api_key, request.version)
    operations = GROUP_OPERATIONS if request.body.include_authorized_operations else UNASKED_OPERATIONS
    rows = [_row(context, types, group_id, operations) for group_id in request.body.group_ids]
    return types.message(throttle_time=0, groups=rows)


def _row(context: BrokerContext, types: MessageTypes, group_id: str, operations: int) -> Any:
    try:
        check_protocol(context)
        if not group_id:
            raise OperationError(ErrorCode.invalid_group_id)
        _, group = context.groups.group(group_id)
        if not isinstance(group, ConsumerGroup):
            known = "is not a consumer group" if group is not None else "not found"
            raise OperationError(ErrorCode.group_id_not_found, f"Group {group_id} {known}.")
    except OperationError as error:
        return types.new(
            "DescribedGroup",
            error_code=error.error_code,
            error_message=error.message or None,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
            authorized_operations=UNASKED_OPERATIONS,
        )
    data = group.committed
    return types.new(
        "DescribedGroup",
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=data.epoch,
        assignment_epoch=data.assignment_epoch,
        assignor_name=data.preferred_assignor() or group.context.settings.assignors[0],
        members=[_member(types, group, member) for member in data.members.values()],
        authorized_operations=operations,
    )


def _member(types: MessageTypes, group: ConsumerGroup, member: ConsumerMember) -> Any:
    metadata = member.metadata
    return types.new(
        "Member",
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.current.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.topic_names,
        subscribed_topic_regex=metadata.topic_regex,
        assignment=_assignment(types, group, member.current.assigned),
        target_assignment=_assignment(types, group, group.committed.target_of(member.member_id)),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(types: MessageTypes, group: ConsumerGroup, partitions: Mapping[Any, Any]) -> Any:
    by_id = group.context.catalog.by_id
    topics = [
        types.new(
            "TopicPartitions",
            topic_id=topic_id,
            topic_name=by_id[topic_id].name,
            partitions=tuple(sorted(numbers)),
        )
        for topic_id, numbers in partitions.items()
        if topic_id in by_id
    ]
    return types.new("Assignment", topic_partitions=topics)
