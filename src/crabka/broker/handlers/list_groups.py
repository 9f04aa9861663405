"""ListGroups (16): the groups that this node coordinates, by state (from version 4) and type (from version 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.shard import AnyGroup
    from crabka.serving.request import Request

CLASSIC = "classic"
CONSUMER = "consumer"
# A group whose members this node does not run is either without members or as its last records say.
OPAQUE_STATES = {True: "Empty", False: "Stable"}


class _Listed(NamedTuple):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


def handle(context: BrokerContext, request: Request) -> Any:
    """List the groups; while some are still loaded the list would not be complete."""
    types = response_types(request.api_key, request.version)
    if any(not hosted.is_active for hosted in context.groups.shards):
        return types.message(throttle_time=0, error_code=ErrorCode.coordinator_load_in_progress, groups=())
    states = {state.strip().lower() for state in getattr(request.body, "states_filter", ())}
    kinds = {kind.strip().lower() for kind in getattr(request.body, "types_filter", ())}
    rows = [
        types.new("ListedGroup", **listed._asdict())
        for listed in _groups(context)
        if (not states or listed.group_state.lower() in states) and (not kinds or listed.group_type in kinds)
    ]
    return types.message(throttle_time=0, error_code=ErrorCode.none, groups=rows)


def _groups(context: BrokerContext) -> Iterator[_Listed]:
    for hosted in context.groups.shards:
        for group in hosted.shard.groups.values():
            listed = _listed(group)
            if listed is not None:
                yield listed


def _listed(group: AnyGroup) -> _Listed | None:
    if isinstance(group, ClassicGroup):
        return _Listed(group.group_id, group.membership.protocol_type or "", group.state.value, CLASSIC)
    if not group.exists:
        return None
    if isinstance(group, ConsumerGroup):
        return _Listed(group.group_id, CONSUMER, group.state.value, CONSUMER)
    kind = group.group_type.value
    return _Listed(group.group_id, kind, OPAQUE_STATES[group.is_empty], kind)
