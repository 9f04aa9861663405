"""Guards of the APIs of configs, which brokers and controllers check alike: what is refused gets an error row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from crabka.metadata.configs import ConfigResourceType
from crabka.protocol.apis import MessageTypes, response_types
from crabka.protocol.error_codes import ErrorCode, error_message
from crabka.security.acls import CLUSTER_NAME, Operation, ResourceType
from crabka.serving.access.guard import Admission, Answered, Check, Guard, Row, with_body

if TYPE_CHECKING:
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

# What the configs of a resource are protected as, and the error without the permission.
_PROTECTED: Final = {
    ConfigResourceType.TOPIC: (ResourceType.TOPIC, ErrorCode.topic_authorization_failed),
    ConfigResourceType.GROUP: (ResourceType.GROUP, ErrorCode.group_authorization_failed),
    ConfigResourceType.BROKER: (ResourceType.CLUSTER, ErrorCode.cluster_authorization_failed),
    ConfigResourceType.BROKER_LOGGER: (ResourceType.CLUSTER, ErrorCode.cluster_authorization_failed),
    ConfigResourceType.CLIENT_METRICS: (ResourceType.CLUSTER, ErrorCode.cluster_authorization_failed),
}
RefusedRow = Callable[[MessageTypes, Any, ErrorCode], Any]


def config_guard(operation: Operation, field: str, refused_row: RefusedRow, *, loggers: Operation) -> Guard:
    """Return a guard; `field` has the rows of the response, `loggers` is what the loggers of a node need."""

    def refusal(access: Access, request: Request, resource: Any) -> ErrorCode | None:
        protected = _PROTECTED.get(resource.resource_type)
        if protected is None:
            # The handler refuses a type that it does not know.
            return None
        resource_type, error_code = protected
        name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else resource.resource_name
        wanted = loggers if resource.resource_type == ConfigResourceType.BROKER_LOGGER else operation
        return None if access.allows(request, wanted, resource_type, name) else error_code

    def guard(access: Access, _context: object, request: Request) -> Admission | Answered:
        verdicts = [(resource, refusal(access, request, resource)) for resource in request.body.resources]
        admitted = tuple(resource for resource, error_code in verdicts if error_code is None)
        if len(admitted) == len(verdicts):
            return Admission(request)
        types = response_types(request.api_key, request.version)
        refused = tuple(
            refused_row(types, resource, error_code) for resource, error_code in verdicts if error_code is not None
        )
        if not admitted:
            return Answered(types.message(throttle_time=0, **{field: refused}))

        def finish(response: Any) -> Any:
            return dataclasses.replace(response, **{field: (*getattr(response, field), *refused)})

        return Admission(with_body(request, resources=admitted), finish)

    return guard


def _described(types: MessageTypes, resource: Any, error_code: ErrorCode) -> Any:
    return types.new(
        "DescribeConfigsResult",
        error_code=error_code,
        error_message=error_message(error_code),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


def _altered(types: MessageTypes, resource: Any, error_code: ErrorCode) -> Any:
    return types.new(
        "AlterConfigsResourceResponse",
        error_code=error_code,
        error_message=error_message(error_code),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _checks(operation: Operation) -> tuple[Check, ...]:
    return (
        Check(operation, "Topic", "TOPIC_AUTHORIZATION_FAILED", "configs of a topic"),
        Check(operation, "Group", "GROUP_AUTHORIZATION_FAILED", "configs of a group"),
        Check(operation, "Cluster", "CLUSTER_AUTHORIZATION_FAILED", "configs of all else"),
    )


def _alter_row(loggers: Operation, *more: Check) -> Row:
    guard = config_guard(Operation.ALTER_CONFIGS, "responses", _altered, loggers=loggers)
    return Row((*_checks(Operation.ALTER_CONFIGS), *more), guard)


DESCRIBE_CONFIGS: Final = Row(
    _checks(Operation.DESCRIBE_CONFIGS),
    config_guard(Operation.DESCRIBE_CONFIGS, "results", _described, loggers=Operation.DESCRIBE_CONFIGS),
)
ALTER_CONFIGS_OF_BROKER: Final = _alter_row(Operation.ALTER_CONFIGS)
ALTER_CONFIGS_OF_CONTROLLER: Final = _alter_row(
    Operation.CLUSTER_ACTION,
    Check(Operation.CLUSTER_ACTION, "Cluster", "CLUSTER_AUTHORIZATION_FAILED", "loggers of the controller"),
)
