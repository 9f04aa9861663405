"""DescribeAcls of brokers and controllers, and what the APIs of ACLs share (KIP-140).

Without an authorizer ACLs would mean nothing, so they can be neither listed nor changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from crabka.errors import OperationError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acl_records import acl_of
from crabka.security.acls import AclFilter, Operation, PatternType, Permission, ResourceType, code_of

if TYPE_CHECKING:
    from crabka.metadata.image import MetadataImage
    from crabka.security.acls import Acl
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

NO_AUTHORIZER = "No Authorizer is configured."


class AclScope(Protocol):
    """The node whose ACLs are described or changed."""

    @property
    def access(self) -> Access | None:
        """The authorizer of the node."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""


def require_authorizer(context: AclScope, message: str = NO_AUTHORIZER) -> None:
    """Raise OperationError: SECURITY_DISABLED if there is no authorizer."""
    if context.access is None:
        raise OperationError(ErrorCode.security_disabled, message)


def describe_acls(context: AclScope, request: Request) -> Any:
    """Return the ACLs that a filter selects, by the pattern of their resources."""
    types = response_types(request.api_key, request.version)
    if context.access is None:
        message = f"{NO_AUTHORIZER[:-1]} on the broker"
        return types.message(
            throttle_time=0, error_code=ErrorCode.security_disabled, error_message=message, resources=()
        )
    wanted = filter_of(request.body)
    by_pattern: dict[tuple[ResourceType, str, PatternType], list[Acl]] = {}
    for record in context.image.acls.entries.values():
        acl = acl_of(record)
        if wanted.matches(acl):
            by_pattern.setdefault((acl.resource_type, acl.name, acl.pattern_type), []).append(acl)
    resources = [
        types.new(
            "DescribeAclsResource",
            resource_type=int(resource_type),
            resource_name=name,
            pattern_type=int(pattern_type),
            acls=[
                types.new(
                    "AclDescription",
                    principal=acl.principal,
                    host=acl.host,
                    operation=int(acl.operation),
                    permission_type=int(acl.permission),
                )
                for acl in acls
            ],
        )
        for (resource_type, name, pattern_type), acls in by_pattern.items()
    ]
    return types.message(throttle_time=0, error_code=ErrorCode.none, error_message="", resources=resources)


def filter_of(body: Any) -> AclFilter:
    """Return the filter of a request."""
    return AclFilter(
        code_of(ResourceType, body.resource_type_filter),
        body.resource_name_filter,
        code_of(PatternType, body.pattern_type_filter),
        body.principal_filter,
        body.host_filter,
        code_of(Operation, body.operation),
        code_of(Permission, body.permission_type),
    )
