"""DescribeUserScramCredentials (50): which users have stored credentials; never the credentials (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request


def handle(context: BrokerContext, request: Request) -> Any:
    """Describe all users, or the asked ones."""
    types = response_types(request.api_key, request.version)
    stored: dict[str, dict[int, int]] = {}
    for key, credential in context.image.scram.credentials.items():
        stored.setdefault(key.user, {})[key.mechanism] = credential.iterations
    asked = [user.name for user in request.body.users or ()]
    names = asked or sorted(stored)
    rows = [_row(types, name, stored.get(name, {}), duplicate=asked.count(name) > 1) for name in dict.fromkeys(names)]
    return types.message(throttle_time=0, error_code=ErrorCode.none, error_message="", results=rows)


def _row(types: MessageTypes, user: str, credentials: dict[int, int], *, duplicate: bool) -> Any:
    error_code, message = ErrorCode.none, ""
    if duplicate:
        error_code = ErrorCode.duplicate_resource
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif not credentials:
        error_code = ErrorCode.resource_not_found
        message = f"Attempt to describe a user credential that does not exist: {user}"
    return types.new(
        "DescribeUserScramCredentialsResult",
        user=user,
        error_code=error_code,
        error_message=message,
        credential_infos=[]
        if duplicate
        else [
            types.new("CredentialInfo", mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in sorted(credentials.items())
        ],
    )
