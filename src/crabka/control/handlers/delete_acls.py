"""DeleteAcls (31): answered with SECURITY_DISABLED, because there is no authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.control.security_disabled import NO_AUTHORIZER, SECURITY_DISABLED
from crabka.protocol.apis import response_types

if TYPE_CHECKING:
    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def handle(_context: ControlContext, request: Request) -> Any:
    """Refuse every filter."""
    types = response_types(request.api_key, request.version)
    refused = types.new(
        "DeleteAclsFilterResult", error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=()
    )
    return types.message(throttle_time=0, filter_results=[refused] * len(request.body.filters))
