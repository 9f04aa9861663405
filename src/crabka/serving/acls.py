"""Answers to requests about ACLs. There is no authorizer, so there is nothing to list or to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.serving.request import Request

NO_AUTHORIZER = "No Authorizer is configured."
_REFUSAL = {"error_code": ErrorCode.security_disabled, "error_message": NO_AUTHORIZER}


def refuse_describe(_context: object, request: Request) -> Any:
    """DescribeAcls: refuse the whole request."""
    types = response_types(request.api_key, request.version)
    return types.message(throttle_time=0, **_REFUSAL, resources=())


def refuse_create(_context: object, request: Request) -> Any:
    """CreateAcls: refuse every ACL."""
    types = response_types(request.api_key, request.version)
    refused = types.new("AclCreationResult", **_REFUSAL)
    return types.message(throttle_time=0, results=[refused] * len(request.body.creations))


def refuse_delete(_context: object, request: Request) -> Any:
    """DeleteAcls: refuse every filter."""
    types = response_types(request.api_key, request.version)
    refused = types.new("DeleteAclsFilterResult", **_REFUSAL, matching_acls=())
    return types.message(throttle_time=0, filter_results=[refused] * len(request.body.filters))
