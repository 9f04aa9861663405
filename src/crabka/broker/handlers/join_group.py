"""JoinGroup (11): a member asks to be in the next generation of a classic group; the answer waits for the others.

Version 0 has no rebalance timeout: the session timeout counts. From version 4 a new member is given an id and has to
come back with it (KIP-394), from version 5 it may be static (KIP-345), from version 9 a static leader may be asked to
leave the assignment as it is (KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.consumer.records import encode_consumer_record
from crabka.broker.groups.messages import UNKNOWN_MEMBER, Join, JoinResult
from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.message_types import ms

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.shard import AnyGroup, HostedShard
    from crabka.serving.request import Request

FIRST_VERSION_REQUIRING_MEMBER_ID = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIPPING = 9


async def handle(context: BrokerContext, request: Request) -> Any:
    """Step the group and wait until it answers."""
    try:
        _check(context, request)
        result = await _join(context, request)
    except OperationError as error:
        result = JoinResult(error.error_code, request.body.member_id)
    return _response(request, result)


def _check(context: BrokerContext, request: Request) -> None:
    body, config = request.body, context.config
    if not body.group_id:
        raise OperationError(ErrorCode.invalid_group_id)
    session_timeout_ms = ms(body.session_timeout)
    if not config.group_min_session_timeout_ms <= session_timeout_ms <= config.group_max_session_timeout_ms:
        raise OperationError(ErrorCode.invalid_session_timeout)


async def _join(context: BrokerContext, request: Request) -> JoinResult:
    groups, body = context.groups, request.body
    hosted, group = groups.group(body.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        return await _ask(context, request, hosted, group, is_new=False)
    if group is not None and not isinstance(group, ClassicGroup):
        await _make_room(context, hosted, group)
        # The shard may have gone meanwhile.
        hosted, group = groups.group(body.group_id)
        if not isinstance(group, ClassicGroup | None):
            raise OperationError(ErrorCode.inconsistent_group_protocol)
    is_new = group is None
    if group is None:
        if body.member_id != UNKNOWN_MEMBER:
            raise OperationError(ErrorCode.unknown_member_id)
        group = groups.create_group(hosted, body.group_id)
        if group.membership.supports(body.protocol_type, tuple(each.name for each in body.protocols)):
            hosted.shard.groups[body.group_id] = group
    return await _ask(context, request, hosted, group, is_new=is_new)


async def _ask(
    context: BrokerContext, request: Request, hosted: HostedShard, group: ClassicGroup | ConsumerGroup, *, is_new: bool
) -> JoinResult:
    result: JoinResult = await context.groups.request(
        hosted, group, lambda reply: _event(context, request, reply, is_new=is_new)
    )
    return result


async def _make_room(context: BrokerContext, hosted: HostedShard, group: AnyGroup) -> None:
    """A consumer group without members becomes a classic one; groups of other kinds stay what they are."""
    if not isinstance(group, ConsumerGroup):
        raise OperationError(ErrorCode.inconsistent_group_protocol)
    reply = PendingReply()

    def stored(error_code: ErrorCode) -> None:
        if error_code is not ErrorCode.none:
            hosted.shard.groups.setdefault(group.group_id, group)
        reply.resolve(error_code)

    del hosted.shard.groups[group.group_id]
    context.groups.append(hosted, [encode_consumer_record(record) for record in group.tombstones()], stored)
    if await context.groups.wait_stored(reply) is not ErrorCode.none:
        raise OperationError(ErrorCode.coordinator_not_available)


def _event(context: BrokerContext, request: Request, reply: PendingReply, *, is_new: bool) -> Join:
    body = request.body
    instance_id = getattr(body, "group_instance_id", None)
    client_id = request.client_id or ""
    session_timeout_ms = ms(body.session_timeout)
    rebalance_timeout_ms = ms(body.rebalance_timeout) if hasattr(body, "rebalance_timeout") else session_timeout_ms
    return Join(
        reply=reply,
        member_id=body.member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=f"/{request.connection.peer_host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple((each.name, bytes(each.metadata)) for each in body.protocols),
        new_member_id=f"{instance_id or client_id}-{context.runtime.new_uuid()}",
        requires_known_member_id=request.version >= FIRST_VERSION_REQUIRING_MEMBER_ID,
        supports_skipping_assignment=request.version >= FIRST_VERSION_WITH_SKIPPING,
        is_new_group=is_new,
    )


def _response(request: Request, result: JoinResult) -> Any:
    types = response_types(request.api_key, request.version)
    protocol = result.protocol
    if protocol is None and request.version < FIRST_VERSION_WITH_NULL_PROTOCOL:
        protocol = ""
    return types.message(
        throttle_time=0,
        error_code=result.error_code,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            types.new(
                "JoinGroupResponseMember",
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )
