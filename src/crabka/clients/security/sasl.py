"""SASL on an open connection: choose a mechanism, exchange tokens, learn how long the session lasts.

SaslHandshake (KIP-43) names the mechanism, SaslAuthenticate (KIP-152) carries its tokens, and its last answer has
the lifetime of the session (KIP-368). The mechanisms themselves know nothing of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from crabka.clients.errors import SaslAuthenticationError
from crabka.clients.security.scram import ScramClient, ScramError
from crabka.protocol.apis import ApiKey, MessageTypes, ms
from crabka.protocol.error_codes import ErrorCode
from crabka.security.sasl.scram_keys import SCRAM_SHA_256, SCRAM_SHA_512
from crabka.security.secret import Secret

if TYPE_CHECKING:
    import random

PLAIN: Final = "PLAIN"
_SCRAMS: Final = {mechanism.name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
MECHANISMS: Final = (PLAIN, *_SCRAMS)

_NONCE_BITS = 192
# From this version on tokens are sent in SaslAuthenticate requests; before, they were sent without a request.
_HANDSHAKE_WITH_REQUESTS = 1
# Kafka's window: early enough for clocks that differ and slow networks, not at the same time for all connections.
_EARLIEST_RENEWAL = 0.85
_LATEST_RENEWAL = 0.95


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    """The user of a client and its credentials."""

    mechanism: str
    username: str
    password: Secret


class SaslChannel(Protocol):
    """A connection that sends no other requests until authentication is over."""

    address: str

    def supports(self, api_key: ApiKey) -> bool:
        """Return whether broker and client share a version of the API."""
        ...

    def version_of(self, api_key: ApiKey) -> int:
        """Return the highest version of the API that both support."""
        ...

    async def ask(self, api_key: ApiKey, build: Callable[[MessageTypes], Any]) -> Any:
        """Send a request before all that wait and return the response."""
        ...


class SaslExchange(Protocol):
    """The tokens of one mechanism."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token, the first of them for an empty challenge; None at the end. Raises ScramError."""
        ...


class PlainExchange:
    """PLAIN (RFC 4616): name and password in plain text, without proof from the server."""

    def __init__(self, username: str, password: Secret) -> None:
        self._token: bytes | None = f"\0{username}\0{password.reveal()}".encode()

    def respond(self, _challenge: bytes) -> bytes | None:
        """Return the token, then None."""
        token, self._token = self._token, None
        return token


class SaslClient:
    """Authenticates connections as one user; shared by all connections of a client."""

    def __init__(self, credentials: SaslCredentials, rng: random.Random) -> None:
        """`rng` makes nonces, so it must be cryptographic."""
        self.credentials = credentials
        self._rng = rng

    def __repr__(self) -> str:
        return f"SaslClient({self.credentials})"

    async def authenticate(self, channel: SaslChannel) -> int | None:
        """Authenticate; return the time until the next authentication in milliseconds, None for never.

        Raises SaslAuthenticationError, and what the channel raises.
        """
        await self._choose_mechanism(channel)
        exchange = self._begin()
        challenge, lifetime_ms = b"", 0
        while (token := self._next_token(exchange, challenge, channel.address)) is not None:
            response = await channel.ask(ApiKey.SASL_AUTHENTICATE, _carrying(token))
            if response.error_code is not ErrorCode.none:
                raise self._refused(channel.address, response.error_message or response.error_code.name)
            challenge = response.auth_bytes
            lifetime_ms = ms(getattr(response, "session_lifetime", None))
        if lifetime_ms <= 0:
            return None
        return int(lifetime_ms * self._rng.uniform(_EARLIEST_RENEWAL, _LATEST_RENEWAL))

    async def _choose_mechanism(self, channel: SaslChannel) -> None:
        mechanism, address = self.credentials.mechanism, channel.address
        if not channel.supports(ApiKey.SASL_HANDSHAKE) or not channel.supports(ApiKey.SASL_AUTHENTICATE):
            raise SaslAuthenticationError(f"{address} does not support SASL: set security.protocol to PLAINTEXT or SSL")
        if channel.version_of(ApiKey.SASL_HANDSHAKE) < _HANDSHAKE_WITH_REQUESTS:
            raise SaslAuthenticationError(f"{address} is older than Kafka 1.0, whose SASL this client does not support")
        response = await channel.ask(ApiKey.SASL_HANDSHAKE, lambda types: types.message(mechanism=mechanism))
        code = response.error_code
        if code is ErrorCode.unsupported_sasl_mechanism:
            offered = ", ".join(response.mechanisms) or "none"
            raise SaslAuthenticationError(
                f"{address} does not offer the SASL mechanism {mechanism}, it offers {offered}"
            )
        if code is ErrorCode.illegal_sasl_state:
            hint = "if its listener is without SASL, set security.protocol to PLAINTEXT or SSL"
            raise SaslAuthenticationError(f"{address} expects no SASL: {hint}")
        if code is not ErrorCode.none:
            raise SaslAuthenticationError(f"{address} refused the SASL mechanism {mechanism}: {code.name}")

    def _begin(self) -> SaslExchange:
        who = self.credentials
        if who.mechanism == PLAIN:
            return PlainExchange(who.username, who.password)
        nonce = f"{self._rng.getrandbits(_NONCE_BITS):0{_NONCE_BITS // 4}x}"
        return ScramClient(_SCRAMS[who.mechanism], who.username, who.password, nonce)

    def _next_token(self, exchange: SaslExchange, challenge: bytes, address: str) -> bytes | None:
        try:
            return exchange.respond(challenge)
        except ScramError as error:
            raise self._refused(address, str(error)) from error

    def _refused(self, address: str, why: str) -> SaslAuthenticationError:
        who = self.credentials
        return SaslAuthenticationError(
            f"SASL authentication of {who.username!r} by {who.mechanism} failed at {address}: {why}"
        )


def _carrying(token: bytes) -> Callable[[MessageTypes], Any]:
    return lambda types: types.message(auth_bytes=token)
