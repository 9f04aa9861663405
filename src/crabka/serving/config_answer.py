"""The answer to DescribeConfigs of brokers and controllers: settings with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.errors import OperationError
from crabka.metadata.requests import ItemVerdict
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.config_view import describe_resource

if TYPE_CHECKING:
    from crabka.config.resolve import ConfigEntry
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.config_view import ConfigScope
    from crabka.serving.request import Request


def answer_describe_configs(context: ConfigScope, request: Request) -> Any:
    """Describe every resource of the request: all of its settings or the named ones."""
    types = response_types(request.api_key, request.version)
    return types.message(
        throttle_time=0,
        results=[_resource_row(context, request, types, resource) for resource in request.body.resources],
    )


def _resource_row(context: ConfigScope, request: Request, types: MessageTypes, resource: Any) -> Any:
    verdict, entries = ItemVerdict(), []
    try:
        entries = describe_resource(context, resource.resource_type, resource.resource_name)
    except OperationError as error:
        verdict = ItemVerdict.of(error)
    keys = resource.configuration_keys
    return types.new(
        "DescribeConfigsResult",
        error_code=verdict.error_code,
        error_message=verdict.message
        if verdict.error_code is not ErrorCode.none
        else "",  # Kafka sends the empty string, not null.
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry_row(request, types, entry) for entry in entries if keys is None or entry.name in keys],
    )


def _entry_row(request: Request, types: MessageTypes, entry: ConfigEntry) -> Any:
    with_documentation = getattr(request.body, "include_documentation", False)
    return types.new(
        "DescribeConfigsResourceResult",
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=[
            types.new("DescribeConfigsSynonym", name=synonym.name, value=synonym.value, source=int(synonym.source))
            for synonym in (entry.synonyms if request.body.include_synonyms else ())
        ],
        config_type=int(entry.type),
        documentation=entry.doc if with_documentation else None,
    )
