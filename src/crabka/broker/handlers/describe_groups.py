"""DescribeGroups (15): state, protocol and members of classic groups.

A group that does not exist is Dead; from version 6 GROUP_ID_NOT_FOUND says so as well (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.membership import GroupState
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.authorized_operations import GROUP_OPERATIONS, UNASKED_OPERATIONS

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.membership import Membership
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

FIRST_VERSION_WITH_NOT_FOUND = 6


def handle(context: BrokerContext, request: Request) -> Any:
    """Describe every group."""
    types = response_types(request.api_key, request.version)
    with_operations = getattr(request.body, "include_authorized_operations", False)
    operations = GROUP_OPERATIONS if with_operations else UNASKED_OPERATIONS
    rows = [_row(context, request, types, group_id, operations) for group_id in request.body.groups]
    return types.message(throttle_time=0, groups=rows)


def _row(context: BrokerContext, request: Request, types: MessageTypes, group_id: str, operations: int) -> Any:
    try:
        if not group_id:
            raise OperationError(ErrorCode.invalid_group_id)
        _, group = context.groups.group(group_id)
    except OperationError as error:
        return _absent(types, group_id, error.error_code, state="")
    if isinstance(group, ClassicGroup):
        return _described(types, group.membership, operations)
    is_known = group is not None
    if request.version < FIRST_VERSION_WITH_NOT_FOUND:
        return _absent(types, group_id, ErrorCode.none, operations=operations)
    message = f"Group {group_id} is not a classic group." if is_known else f"Group {group_id} not found."
    return _absent(types, group_id, ErrorCode.group_id_not_found, message)


def _absent(
    types: MessageTypes,
    group_id: str,
    error_code: ErrorCode,
    message: str | None = None,
    *,
    state: str = GroupState.DEAD.value,
    operations: int = UNASKED_OPERATIONS,
) -> Any:
    return types.new(
        "DescribedGroup",
        error_code=error_code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=operations,
    )


def _described(types: MessageTypes, group: Membership, operations: int) -> Any:
    # Subscriptions and assignments are valid only in a stable generation.
    is_stable = group.state is GroupState.STABLE
    members = [
        types.new(
            "DescribedGroupMember",
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if is_stable else b"",
            member_assignment=member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    ]
    return types.new(
        "DescribedGroup",
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=members,
        authorized_operations=operations,
    )
