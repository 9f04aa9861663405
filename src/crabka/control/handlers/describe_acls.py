"""DescribeAcls (29): answered with SECURITY_DISABLED, because there is no authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.control.security_disabled import NO_AUTHORIZER, SECURITY_DISABLED
from crabka.protocol.apis import response_types

if TYPE_CHECKING:
    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def handle(_context: ControlContext, request: Request) -> Any:
    """Refuse the whole request."""
    types = response_types(request.api_key, request.version)
    return types.message(throttle_time=0, error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER, resources=())
