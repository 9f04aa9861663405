"""DeleteGroups (42): removes groups that have no members, with their offsets (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.coordinators.appender import coordinator_error
from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request


async def handle(context: BrokerContext, request: Request) -> Any:
    """Delete every group that may go."""
    types = response_types(request.api_key, request.version)
    rows = []
    for group_id in request.body.groups_names:
        try:
            error_code = await _delete(context, group_id)
        except OperationError as error:
            error_code = error.error_code
        rows.append(types.new("DeletableGroupResult", group_id=group_id, error_code=error_code))
    return types.message(throttle_time=0, results=rows)


async def _delete(context: BrokerContext, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.invalid_group_id
    hosted, group = context.groups.group(group_id)
    if not isinstance(group, ClassicGroup | ConsumerGroup):
        return ErrorCode.group_id_not_found
    if not group.is_empty:
        return ErrorCode.non_empty_group
    reply = PendingReply()
    context.groups.remove_group(hosted, group_id, reply.resolve)
    return coordinator_error(await context.groups.wait_stored(reply))
