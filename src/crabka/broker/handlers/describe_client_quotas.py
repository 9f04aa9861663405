"""DescribeClientQuotas (48): the stored quotas that match a filter (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request

EXACT, DEFAULT, ANY = 0, 1, 2


def handle(context: BrokerContext, request: Request) -> Any:
    """Filter the stored quotas by entity."""
    types = response_types(request.api_key, request.version)
    body = request.body
    fault = _fault(body.components)
    if fault is not None:
        return types.message(throttle_time=0, error_code=ErrorCode.invalid_request, error_message=fault, entries=None)
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        error_message="",
        entries=[
            types.new(
                "EntryData",
                entity=[types.new("EntityData", entity_type=kind, entity_name=name) for kind, name in entity],
                values=[types.new("ValueData", key=key, value=value) for key, value in sorted(values.items())],
            )
            for entity, values in context.image.client_quotas.entities.items()
            if _matches(dict(entity), body)
        ],
    )


def _fault(components: Any) -> str | None:
    kinds = [component.entity_type for component in components]
    if len(set(kinds)) != len(kinds):
        return "Entity type is given more than once."
    for component in components:
        if component.entity_type not in ("user", "client-id", "ip"):
            return f"Unexpected entity type {component.entity_type!r}."
        if component.match_type not in (EXACT, DEFAULT, ANY):
            return f"Unexpected match type {component.match_type}."
    return None


def _matches(entity: dict[str, str | None], body: Any) -> bool:
    if body.strict and len(entity) != len(body.components):
        return False
    for component in body.components:
        if component.entity_type not in entity:
            return False
        name = entity[component.entity_type]
        if component.match_type == EXACT and name != component.match:
            return False
        if component.match_type == DEFAULT and name is not None:
            return False
    return True
