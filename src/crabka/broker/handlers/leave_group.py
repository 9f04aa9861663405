"""LeaveGroup (13): members leave a classic group, or an administrator removes static ones by their instance.

Up to version 2 one member leaves and its error is the answer; from version 3 many may, each with an error of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.groups.messages import Leave, LeaveResult, MemberIdentity
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

FIRST_VERSION_WITH_MANY_MEMBERS = 3


async def handle(context: BrokerContext, request: Request) -> Any:
    """Remove the members."""
    types = response_types(request.api_key, request.version)
    leaving = _identities(request)
    result = await _leave(context, request, leaving)
    if request.version < FIRST_VERSION_WITH_MANY_MEMBERS:
        error_code = result.members[0][1] if result.members else result.error_code
        return types.message(throttle_time=0, error_code=error_code)
    rows = [
        types.new(
            "MemberResponse",
            member_id=identity.member_id,
            group_instance_id=identity.instance_id,
            error_code=error_code,
        )
        for identity, error_code in result.members
    ]
    return types.message(throttle_time=0, error_code=result.error_code, members=rows)


def _identities(request: Request) -> tuple[MemberIdentity, ...]:
    body = request.body
    if request.version < FIRST_VERSION_WITH_MANY_MEMBERS:
        return (MemberIdentity(body.member_id),)
    return tuple(MemberIdentity(each.member_id, each.group_instance_id) for each in body.members)


async def _leave(context: BrokerContext, request: Request, leaving: tuple[MemberIdentity, ...]) -> LeaveResult:
    group_id = request.body.group_id
    try:
        if not group_id:
            raise OperationError(ErrorCode.invalid_group_id)
        hosted, group = context.groups.joined_group(group_id)
    except OperationError as error:
        if error.error_code is ErrorCode.unknown_member_id:
            return LeaveResult(ErrorCode.none, tuple((each, ErrorCode.unknown_member_id) for each in leaving))
        return LeaveResult(error.error_code)
    result: LeaveResult = await context.groups.request(hosted, group, lambda reply: Leave(reply=reply, members=leaving))
    return result
