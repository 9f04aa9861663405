"""Heartbeat (12): a member of a classic group is alive; the response reports a rebalance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.groups.messages import Heartbeat
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request


async def handle(context: BrokerContext, request: Request) -> Any:
    """Extend the session of the member. While groups are loaded all is well, as Kafka says."""
    body = request.body
    try:
        if not body.group_id:
            raise OperationError(ErrorCode.invalid_group_id)
        hosted, group = context.groups.joined_group(body.group_id)
        error_code = await context.groups.request(
            hosted,
            group,
            lambda reply: Heartbeat(
                reply=reply,
                member_id=body.member_id,
                instance_id=getattr(body, "group_instance_id", None),
                generation=body.generation_id,
            ),
        )
    except OperationError as error:
        is_loading = error.error_code is ErrorCode.coordinator_load_in_progress
        error_code = ErrorCode.none if is_loading else error.error_code
    return response_types(request.api_key, request.version).message(throttle_time=0, error_code=error_code)
