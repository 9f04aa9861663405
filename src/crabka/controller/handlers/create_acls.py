"""CreateAcls (30): new ACLs; one that is there already is no error (KIP-140)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.security.acls import create_acls
from crabka.protocol.apis import response_types
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType, code_of
from crabka.serving.acls import require_authorizer

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Create every valid ACL; they are in force here when the answer is sent."""
    require_authorizer(context)
    types = response_types(request.api_key, request.version)
    wanted = [_acl(creation) for creation in request.body.creations]
    verdicts = await context.metadata_writer.submit(lambda image: create_acls(image, wanted, context.runtime.new_uuid))
    return types.message(
        throttle_time=0,
        results=[
            types.new("AclCreationResult", error_code=verdict.error_code, error_message=verdict.message or "")
            for verdict in verdicts
        ],
    )


def _acl(creation: Any) -> Acl:
    return Acl(
        code_of(ResourceType, creation.resource_type),
        creation.resource_name,
        code_of(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        code_of(Operation, creation.operation),
        code_of(Permission, creation.permission_type),
    )
