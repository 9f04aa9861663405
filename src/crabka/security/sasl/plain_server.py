"""The server's side of PLAIN (RFC 4616), with the users of a JAAS entry, as Kafka's PlainSaslServer."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from crabka.security.sasl.exchange import SaslRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.security.secret import Secret

PLAIN: Final = "PLAIN"
_FIELDS: Final = 3
_MOST_COUNTED: Final = 4
_INVALID: Final = "Authentication failed: Invalid username or password"
_OTHER_IDENTITY: Final = "Authentication failed: Client requested an authorization id that is different from username"
# Compared with where there is no such user: no client sends it, since the text of a password has no NUL.
_NO_PASSWORD: Final = b"\0"


class PlainServer:
    """Reads one token: the identity to act as, the user and the password."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users
        self._user: str | None = None

    @property
    def user(self) -> str | None:
        """The user, once it is known."""
        return self._user

    def respond(self, token: bytes) -> bytes:
        """Return an empty answer. Raises SaslRefusedError."""
        fields = token.decode(errors="replace").split("\0")
        if len(fields) != _FIELDS:
            count = min(len(fields), _MOST_COUNTED)
            shown = f"Invalid SASL/PLAIN response: expected {_FIELDS} tokens, got {count}"
            raise SaslRefusedError("the token is malformed", shown=shown)
        identity, user, password = fields
        if not user:
            raise SaslRefusedError("the user is empty", shown="Authentication failed: username not specified")
        if not password:
            raise SaslRefusedError("the password is empty", shown="Authentication failed: password not specified")
        # An unknown user takes the same steps as a known one. Comparing depends on the length of what is sent alone.
        expected = self._users.get(user)
        wanted = _NO_PASSWORD if expected is None else expected.reveal().encode()
        if not hmac.compare_digest(wanted, password.encode()) or expected is None:
            raise SaslRefusedError("the user is unknown or the password is wrong", shown=_INVALID)
        if identity not in ("", user):
            raise SaslRefusedError("the client asks to act as another user", shown=_OTHER_IDENTITY)
        self._user = user
        return b""
