"""Config changes at a broker: those of loggers concern this process, all others go to the controller.

The answer has a row for each resource in the order of the request, whether the broker or the controller decided on it
(Kafka's ConfigAdminManager).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.config.alter import AlterContext, AlterOp, ConfigOp, apply_ops
from crabka.errors import OperationError
from crabka.metadata.configs import ConfigResource, ConfigResourceType
from crabka.metadata.requests import ItemVerdict
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.broker.context import BrokerContext
    from crabka.protocol.apis import ApiKey, MessageTypes

    Verdicts = list[tuple[ConfigResource, ItemVerdict]]


async def forward_changes(
    context: BrokerContext,
    api_key: ApiKey,
    body: Any,
    *,
    row: Callable[[MessageTypes, Any], Any],
    loggers: Callable[[Any], ItemVerdict],
) -> Verdicts:
    """Return a verdict for each resource of the request: `loggers` decides here, the rest is forwarded.

    `row` builds one setting of the forwarded request.
    """
    refused = {id(each): verdict for each in body.resources if (verdict := _own_refusal(context, each)) is not None}
    forwarded = [each for each in body.resources if not _is_logger(each) and id(each) not in refused]
    answered = await _ask(context, api_key, forwarded, validate_only=body.validate_only, row=row) if forwarded else {}
    silent = ItemVerdict(ErrorCode.unknown_server_error, "The controller did not answer for this resource.")
    verdicts = []
    for each in body.resources:
        resource = ConfigResource(each.resource_type, each.resource_name)
        own = loggers(each) if _is_logger(each) else refused.get(id(each))
        verdicts.append((resource, answered.get(resource, silent) if own is None else own))
    return verdicts


def verdict_rows(types: MessageTypes, verdicts: Verdicts) -> list[Any]:
    """Return the rows of the response."""
    return [
        types.new(
            "AlterConfigsResourceResponse",
            error_code=verdict.error_code,
            error_message=verdict.message,
            resource_type=resource.resource_type,
            resource_name=resource.name,
        )
        for resource, verdict in verdicts
    ]


async def _ask(
    context: BrokerContext,
    api_key: ApiKey,
    resources: Sequence[Any],
    *,
    validate_only: bool,
    row: Callable[[MessageTypes, Any], Any],
) -> dict[ConfigResource, ItemVerdict]:
    def build(types: MessageTypes) -> Any:
        rows = [
            types.new(
                "AlterConfigsResource",
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[row(types, config) for config in each.configs],
            )
            for each in resources
        ]
        return types.message(resources=rows, validate_only=validate_only)

    try:
        response = await context.controller.request(api_key, build)
    except OperationError as error:
        refused = ItemVerdict.of(error)
        return {ConfigResource(each.resource_type, each.resource_name): refused for each in resources}
    return {
        ConfigResource(each.resource_type, each.resource_name): ItemVerdict(each.error_code, each.error_message)
        for each in response.responses
    }


def _own_refusal(context: BrokerContext, resource: Any) -> ItemVerdict | None:
    """Check a change of this broker against its own file, which the controller does not know; None if it may be."""
    own_name = str(context.node_id)
    if resource.resource_type != ConfigResourceType.BROKER or resource.resource_name != own_name:
        return None
    ops = [ConfigOp(each.name, getattr(each, "config_operation", AlterOp.SET), each.value) for each in resource.configs]
    existing = context.image.configs.get(ConfigResourceType.BROKER, own_name)
    try:
        apply_ops(ConfigResourceType.BROKER, existing, ops, AlterContext(own_name, context.static_config))
    except OperationError as error:
        return ItemVerdict.of(error)
    return None


def _is_logger(resource: Any) -> bool:
    return bool(resource.resource_type == ConfigResourceType.BROKER_LOGGER)
