"""What the server's sides of the mechanisms have in common: tokens in, tokens out, a user or a refusal at the end."""

from __future__ import annotations

from typing import Protocol

from crabka.errors import CrabkaError


class SaslRefusedError(CrabkaError):
    """The server does not accept what the client sent.

    `reason` is for the log of the node. `shown` is what the client may read, None for the general text: it must not say
    whether a user exists. Neither may repeat anything that the client sent.
    """

    def __init__(self, reason: str, *, shown: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.shown = shown

    def __str__(self) -> str:
        return self.reason


class ServerExchange(Protocol):
    """The exchange of one mechanism on one connection."""

    @property
    def user(self) -> str | None:
        """The user who authenticated, None until the exchange is complete."""

    def respond(self, token: bytes) -> bytes:
        """Return the answer to a token of the client. Raises SaslRefusedError; the exchange is over then."""
        ...
