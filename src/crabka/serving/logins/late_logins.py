"""SaslHandshake (17) and SaslAuthenticate (36) where no log-in is expected: without SASL, or after the log-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from crabka.protocol.apis import ApiKey, response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.serving.request import Request

_TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"


def refuse_handshake(_context: object, request: Request) -> Any:
    """Answer a SaslHandshake that begins no log-in."""
    types = response_types(request.api_key, request.version)
    return types.message(error_code=ErrorCode.illegal_sasl_state, mechanisms=())


def refuse_authenticate(_context: object, request: Request) -> Any:
    """Answer a SaslAuthenticate that belongs to no log-in."""
    types = response_types(request.api_key, request.version)
    return types.message(
        error_code=ErrorCode.illegal_sasl_state, error_message=_TOO_LATE, auth_bytes=b"", session_lifetime=0
    )


LATE_LOGINS: Final = {ApiKey.SASL_HANDSHAKE: refuse_handshake, ApiKey.SASL_AUTHENTICATE: refuse_authenticate}
