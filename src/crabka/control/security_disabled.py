"""What ACL requests are told: there is no authorizer, so there is nothing to list or change."""

from __future__ import annotations

from crabka.protocol.error_codes import ErrorCode

SECURITY_DISABLED = ErrorCode.security_disabled
NO_AUTHORIZER = "No Authorizer is configured."
