"""SyncGroup (14): the leader of a generation brings the assignment, every member gets its part once it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.groups.messages import Sync, SyncResult
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

FIRST_VERSION_WITH_PROTOCOL = 5


async def handle(context: BrokerContext, request: Request) -> Any:
    """Step the group and wait until it answers. From version 5 on the protocol has to be named."""
    body = request.body
    try:
        if not body.group_id:
            raise OperationError(ErrorCode.invalid_group_id)
        if request.version >= FIRST_VERSION_WITH_PROTOCOL and None in (body.protocol_type, body.protocol_name):
            raise OperationError(ErrorCode.inconsistent_group_protocol)
        hosted, group = context.groups.joined_group(body.group_id)
        result: SyncResult = await context.groups.request(hosted, group, lambda reply: _event(body, reply))
    except OperationError as error:
        # The coordinator is loading, so whatever the member knows is old: it has to join again.
        is_loading = error.error_code is ErrorCode.coordinator_load_in_progress
        result = SyncResult(ErrorCode.rebalance_in_progress if is_loading else error.error_code)
    return response_types(request.api_key, request.version).message(
        throttle_time=0,
        error_code=result.error_code,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )


def _event(body: Any, reply: PendingReply) -> Sync:
    return Sync(
        reply=reply,
        member_id=body.member_id,
        instance_id=getattr(body, "group_instance_id", None),
        generation=body.generation_id,
        protocol_type=getattr(body, "protocol_type", None),
        protocol=getattr(body, "protocol_name", None),
        assignments={each.member_id: bytes(each.assignment) for each in body.assignments},
    )
