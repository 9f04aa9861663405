"""What both sides of SCRAM derive from a password (RFC 5802, RFC 7677), and how its texts are encoded.

As in Kafka, names and passwords do not pass through SASLprep.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from typing import Final, NamedTuple

from crabka.security.secret import Secret

MIN_ITERATIONS: Final = 4096
"""The minimum of Kafka and RFC 7677: fewer would make a recorded exchange cheap to attack."""
MAX_STORED_ITERATIONS: Final = 16_384
"""Kafka's maximum for the credentials of a server."""


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """A name of the SASL registry and the hash function behind it."""

    name: str
    hash_name: str

    def hash(self, data: bytes) -> bytes:
        """Return H(data)."""
        return hashlib.new(self.hash_name, data).digest()

    def hmac(self, key: bytes, message: bytes) -> bytes:
        """Return HMAC(key, message)."""
        return hmac.digest(key, message, self.hash_name)


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", "sha512")
# The numbers are those of UserScramCredentialRecord and of the APIs (KIP-554).
SCRAM_MECHANISMS: Final = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}


class ScramKeys(NamedTuple):
    """The keys that follow from a password, a salt and a count of iterations."""

    client_key: bytes
    server_key: bytes


class StoredScramKeys(NamedTuple):
    """What a server keeps of a password. It proves the server's identity and allows guesses, but no log-in."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"StoredScramKeys(iterations={self.iterations}, [hidden])"


def salted_password(mechanism: ScramMechanism, password: Secret, salt: bytes, iterations: int) -> bytes:
    """Return Hi(password, salt, iterations), which takes milliseconds of CPU."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.reveal().encode(), salt, iterations)


def derive_keys(mechanism: ScramMechanism, salted: bytes) -> ScramKeys:
    """Return the keys of a salted password."""
    return ScramKeys(mechanism.hmac(salted, b"Client Key"), mechanism.hmac(salted, b"Server Key"))


def stored_keys(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> StoredScramKeys:
    """Return what a server keeps of a salted password."""
    keys = derive_keys(mechanism, salted)
    return StoredScramKeys(salt, iterations, mechanism.hash(keys.client_key), keys.server_key)


def exclusive_or(left: bytes, right: bytes) -> bytes:
    """Return the bytes of two texts of the same length, combined by XOR."""
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


def encode_base64(data: bytes) -> str:
    """Return base64 as text."""
    return base64.b64encode(data).decode()


def decode_base64(text: str) -> bytes:
    """Return the bytes of base64 with padding and without anything else. Raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def encode_sasl_name(name: str) -> str:
    """Return a name without the characters that separate the fields of a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def decode_sasl_name(text: str) -> str:
    """Return the name of `encode_sasl_name`. Raises ValueError."""
    rest = text.replace("=3D", "").replace("=2C", "")
    if "=" in rest or "," in rest:
        raise ValueError("a name has a character that is not encoded")
    return text.replace("=2C", ",").replace("=3D", "=")
