"""The client's side of SCRAM (RFC 5802, RFC 7677), as in Kafka: no channel binding, texts as plain UTF-8.

Pure: messages in, messages out; the nonce is an argument. The server proves that it knows the user as well: without a
check of its signature the server is not authenticated. As in Kafka, names and passwords do not pass through SASLprep.
"""

from __future__ import annotations

import enum
import hmac
from typing import Final

from crabka.errors import CrabkaError
from crabka.security.sasl.scram_keys import (
    MIN_ITERATIONS,
    ScramMechanism,
    decode_base64,
    derive_keys,
    encode_base64,
    encode_sasl_name,
    exclusive_or,
    salted_password,
)
from crabka.security.secret import Secret

MAX_ITERATIONS: Final = 100_000
"""Six times Kafka's maximum. A server that requests more would block the loop."""

_NO_CHANNEL_BINDING = "n,,"
_ENCODED_BINDING = encode_base64(_NO_CHANNEL_BINDING.encode())
_TOKENAUTH = ",tokenauth=true"
_MAX_COUNT_DIGITS = 9
_MAX_SHOWN_CHARACTERS = 80


class ScramError(CrabkaError):
    """The server broke the exchange, refused the user, or could not prove that it knows them."""


class _Stage(enum.Enum):
    """The state of the exchange."""

    START = enum.auto()
    SERVER_FIRST = enum.auto()
    SERVER_FINAL = enum.auto()
    COMPLETE = enum.auto()
    FAILED = enum.auto()


class ScramClient:
    """One exchange: `respond` returns the next message after each message of the server."""

    def __init__(
        self, mechanism: ScramMechanism, username: str, password: Secret, nonce: str, *, by_token: bool = False
    ) -> None:
        """The nonce is fresh, unguessable, printable ASCII without commas.

        `by_token` says that name and password are the id and the HMAC of a delegation token (KIP-48).
        """
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._first_bare = f"n={encode_sasl_name(username)},r={nonce}{_TOKENAUTH if by_token else ''}"
        self._stage = _Stage.START
        self._server_signature = b""

    @property
    def is_complete(self) -> bool:
        """True once the server has proved that it knows the user."""
        return self._stage is _Stage.COMPLETE

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to a challenge, the first of which is empty; None when the exchange is complete.

        Raises ScramError; the exchange is over then.
        """
        stage, self._stage = self._stage, _Stage.FAILED
        match stage:
            case _Stage.START:
                if challenge:
                    raise ScramError("the server sent a message before the client")
                self._stage = _Stage.SERVER_FIRST
                return f"{_NO_CHANNEL_BINDING}{self._first_bare}".encode()
            case _Stage.SERVER_FIRST:
                answer = self._prove(_text(challenge))
                self._stage = _Stage.SERVER_FINAL
                return answer
            case _Stage.SERVER_FINAL:
                self._verify(_text(challenge))
                self._stage = _Stage.COMPLETE
                return None
            case _Stage.COMPLETE | _Stage.FAILED:
                raise ScramError("the server sent a message after the end of the exchange")

    def _prove(self, server_first: str) -> bytes:
        nonce, salt, iterations = _parse_server_first(server_first)
        if not nonce.startswith(self._nonce):
            raise ScramError("the server answered to another nonce")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ScramError(f"the server asks for {iterations} iterations, not {MIN_ITERATIONS} to {MAX_ITERATIONS}")
        mechanism = self._mechanism
        keys = derive_keys(mechanism, salted_password(mechanism, self._password, salt, iterations))
        without_proof = f"c={_ENCODED_BINDING},r={nonce}"
        said = f"{self._first_bare},{server_first},{without_proof}".encode()
        proof = exclusive_or(keys.client_key, mechanism.hmac(mechanism.hash(keys.client_key), said))
        self._server_signature = mechanism.hmac(keys.server_key, said)
        return f"{without_proof},p={encode_base64(proof)}".encode()

    def _verify(self, server_final: str) -> None:
        kind, _, value = server_final.partition(",")[0].partition("=")
        if kind == "e":
            raise ScramError(f"the server says {value[:_MAX_SHOWN_CHARACTERS]!r}")
        if kind != "v":
            raise ScramError("the last message of the server has no signature")
        if not hmac.compare_digest(_decode_base64(value), self._server_signature):
            raise ScramError("the signature of the server is wrong: it does not know the user's password")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramError("a message of the server is not UTF-8") from error


def _parse_server_first(message: str) -> tuple[str, bytes, int]:
    """Return nonce, salt and iterations; extensions after them may be ignored, one before them (`m=`) may not."""
    parts = message.split(",")
    if len(parts) < 3 or [part[:2] for part in parts[:3]] != ["r=", "s=", "i="]:
        raise ScramError("the first message of the server is not nonce, salt and iterations")
    nonce, salt, count = (part[2:] for part in parts[:3])
    if not (count.isascii() and count.isdecimal() and len(count) <= _MAX_COUNT_DIGITS):
        raise ScramError("the iterations that the server asks for are no number")
    return nonce, _decode_base64(salt), int(count)


def _decode_base64(text: str) -> bytes:
    try:
        decoded = decode_base64(text)
    except ValueError as error:
        raise ScramError("a message of the server is not base64 where it should be") from error
    if not decoded:
        raise ScramError("a message of the server is empty where it should not be")
    return decoded
