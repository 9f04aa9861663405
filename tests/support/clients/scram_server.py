"""The server's side of SCRAM, from RFC 5802, and a scripted broker that authenticates with it or with PLAIN."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Any

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.sasl.scram_keys import SCRAM_SHA_256, ScramMechanism
from tests.support.clients.scripted_broker import ReceivedRequest, ScriptedBroker

REFUSED = "Authentication failed due to invalid credentials"


class WrongProofError(Exception):
    """The client does not know the password."""


@dataclass
class ScramServer:
    """One exchange with a client whose password is known."""

    password: str
    mechanism: ScramMechanism = SCRAM_SHA_256
    salt: bytes = b"0123456789abcdef"
    iterations: int = 4096
    nonce: str = "server"
    client_first: str = ""
    server_first: str = ""

    def first(self, message: bytes) -> bytes:
        """Answer the first message of the client."""
        header, self.client_first = message[:3].decode(), message[3:].decode()
        if header != "n,,":
            raise ValueError(f"{header} is not the header of a client without channel binding")
        client_nonce = self.client_first.partition(",r=")[2]
        salt = base64.b64encode(self.salt).decode()
        self.server_first = f"r={client_nonce}{self.nonce},s={salt},i={self.iterations}"
        return self.server_first.encode()

    def final(self, message: bytes) -> bytes:
        """Check the proof of the client and return the server's own. Raises WrongProofError."""
        without_proof, _, proof = message.decode().rpartition(",p=")
        said = f"{self.client_first},{self.server_first},{without_proof}".encode()
        salted = self._hi()
        stored_key = self._hash(self._hmac(salted, b"Client Key"))
        signature = self._hmac(stored_key, said)
        client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if self._hash(client_key) != stored_key:
            raise WrongProofError
        return b"v=" + base64.b64encode(self._hmac(self._hmac(salted, b"Server Key"), said))

    def _hi(self) -> bytes:
        """RFC 5802's Hi, step by step, to have it twice."""
        step = self._hmac(self.password.encode(), self.salt + b"\0\0\0\1")
        result = int.from_bytes(step, "big")
        for _ in range(self.iterations - 1):
            step = self._hmac(self.password.encode(), step)
            result ^= int.from_bytes(step, "big")
        return result.to_bytes(len(step), "big")

    def _hash(self, data: bytes) -> bytes:
        return hashlib.new(self.mechanism.hash_name, data).digest()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.mechanism.hash_name)


@dataclass
class SaslScript:
    """What a scripted broker says to SaslHandshake and SaslAuthenticate, for one connection at a time."""

    password: str
    mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    lifetime_ms: int = 0
    signature: bytes | None = None
    sessions: list[str] = field(default_factory=list)
    _exchange: ScramServer | None = None
    _mechanism: str = ""

    def install(self, broker: ScriptedBroker) -> None:
        """Let the broker answer so."""
        broker.answers[ApiKey.SASL_HANDSHAKE] = self._handshake
        broker.answers[ApiKey.SASL_AUTHENTICATE] = self._authenticate

    def _handshake(self, request: ReceivedRequest) -> Any:
        self._mechanism, self._exchange = request.body.mechanism, None
        known = self._mechanism in self.mechanisms
        code = ErrorCode.none if known else ErrorCode.unsupported_sasl_mechanism
        return request.types.message(error_code=code, mechanisms=list(self.mechanisms))

    def _authenticate(self, request: ReceivedRequest) -> Any:
        try:
            token, done = self._token(request.body.auth_bytes)
        except WrongProofError:
            code = ErrorCode.sasl_authentication_failed
            return request.types.message(error_code=code, error_message=REFUSED, auth_bytes=b"", session_lifetime=0)
        if done:
            self.sessions.append(self._mechanism)
        lifetime_ms = self.lifetime_ms if done else 0
        return request.types.message(
            error_code=ErrorCode.none, error_message=None, auth_bytes=token, session_lifetime=lifetime_ms
        )

    def _token(self, received: bytes) -> tuple[bytes, bool]:
        if self._mechanism == "PLAIN":
            if received.split(b"\0")[2] != self.password.encode():
                raise WrongProofError
            return b"", True
        if self._exchange is None:
            hash_name = self._mechanism.removeprefix("SCRAM-").replace("-", "").lower()
            self._exchange = ScramServer(self.password, ScramMechanism(self._mechanism, hash_name))
            return self._exchange.first(received), False
        return self.signature or self._exchange.final(received), True
