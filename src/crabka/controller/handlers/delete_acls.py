"""DeleteAcls (31): removes the ACLs that filters select (KIP-140)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.security.acls import delete_acls
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.acls import filter_of, require_authorizer

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.security.acls import Acl
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Remove what every filter selects; it is gone here when the answer is sent."""
    require_authorizer(context)
    types = response_types(request.api_key, request.version)
    filters = [filter_of(each) for each in request.body.filters]
    deletions = await context.metadata_writer.submit(lambda image: delete_acls(image, filters))
    return types.message(
        throttle_time=0,
        filter_results=[
            types.new(
                "DeleteAclsFilterResult",
                error_code=deletion.verdict.error_code,
                error_message=deletion.verdict.message,
                matching_acls=[_matching(types, acl) for acl in deletion.acls],
            )
            for deletion in deletions
        ],
    )


def _matching(types: MessageTypes, acl: Acl) -> Any:
    return types.new(
        "DeleteAclsMatchingAcl",
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=int(acl.resource_type),
        resource_name=acl.name,
        pattern_type=int(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission),
    )
