"""The server's side of SCRAM (RFC 5802, RFC 7677), as in Kafka: without channel binding, names in ASCII.

Pure: the credentials, the nonce and what stands for the credentials of unknown users are arguments. An unknown user is
refused after the same messages and the same work as a known one with a wrong password, so that a client cannot find out
who has an account. (Kafka refuses an unknown user one message earlier.)
"""

from __future__ import annotations

import enum
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from crabka.security.sasl.exchange import SaslRefusedError
from crabka.security.sasl.scram_keys import (
    MIN_ITERATIONS,
    ScramMechanism,
    StoredScramKeys,
    decode_base64,
    decode_sasl_name,
    encode_base64,
    exclusive_or,
)

NONCE_BITS: Final = 130
SALT_BITS: Final = 130
_OTHER_IDENTITY: Final = "Authentication failed: Client requested an authorization id that is different from username"
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_BASE_64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<identity>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<binding>{_BASE_64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE_64})"
)

# The credentials of a user for a mechanism; None if there is no such user.
FindKeys = Callable[[str], StoredScramKeys | None]


class UnknownUsers(NamedTuple):
    """Invents credentials for users that do not exist, always the same ones for a user.

    Without them the salt of an unknown user would change from one attempt to the next.
    """

    key: bytes

    def keys_of(self, mechanism: ScramMechanism, user: str) -> StoredScramKeys:
        """Return what looks like credentials and fits no password."""
        drawn = mechanism.hmac(self.key, user.encode())
        salt = scram_text(int.from_bytes(drawn) >> (8 * len(drawn) - SALT_BITS)).encode()
        return StoredScramKeys(salt, MIN_ITERATIONS, drawn, drawn)


def scram_text(number: int) -> str:
    """Return a number as Kafka writes its nonces and salts: in base 36."""
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or _DIGITS[0]


class _Stage(enum.Enum):
    """The next message."""

    CLIENT_FIRST = enum.auto()
    CLIENT_FINAL = enum.auto()
    NONE = enum.auto()


class ScramServer:
    """One exchange."""

    def __init__(self, mechanism: ScramMechanism, find_keys: FindKeys, unknown: UnknownUsers, nonce: str) -> None:
        """The nonce is fresh, unguessable, printable ASCII without commas."""
        self._mechanism = mechanism
        self._find_keys = find_keys
        self._unknown = unknown
        self._nonce = nonce
        self._stage = _Stage.CLIENT_FIRST
        self._name = ""
        self._identity = ""
        self._keys: StoredScramKeys | None = None
        self._is_known = False
        self._binding = ""
        # All messages so far, as both sides sign them.
        self._said = ""
        self._user: str | None = None

    @property
    def user(self) -> str | None:
        """The user, once it is proved."""
        return self._user

    def respond(self, token: bytes) -> bytes:
        """Return the answer to a message of the client. Raises SaslRefusedError; the exchange is over then."""
        stage, self._stage = self._stage, _Stage.NONE
        match stage:
            case _Stage.CLIENT_FIRST:
                answer = self._challenge(token)
                self._stage = _Stage.CLIENT_FINAL
                return answer
            case _Stage.CLIENT_FINAL:
                return self._verify(token)
            case _Stage.NONE:
                raise SaslRefusedError("a message came after the end of the exchange")

    def _challenge(self, token: bytes) -> bytes:
        found = _CLIENT_FIRST.fullmatch(_text(token))
        if found is None:
            raise SaslRefusedError("the first message of SCRAM is malformed")
        if ",tokenauth=true" in found["extensions"].lower():
            raise SaslRefusedError("delegation tokens are not supported")
        self._name = decode_sasl_name(found["name"])
        self._identity = decode_sasl_name(found["identity"] or "")
        keys = self._find_keys(self._name)
        invented = self._unknown.keys_of(self._mechanism, self._name)
        self._is_known = keys is not None
        keys = self._keys = keys or invented
        self._nonce = found["nonce"] + self._nonce
        self._binding = encode_base64(found["header"].encode())
        challenge = f"r={self._nonce},s={encode_base64(keys.salt)},i={keys.iterations}"
        self._said = f"{found['bare']},{challenge}"
        return challenge.encode()

    def _verify(self, token: bytes) -> bytes:
        found = _CLIENT_FINAL.fullmatch(_text(token))
        keys, mechanism = self._keys, self._mechanism
        if found is None or keys is None:
            raise SaslRefusedError("the last message of SCRAM is malformed")
        if not hmac.compare_digest(found["nonce"], self._nonce) or found["binding"] != self._binding:
            raise SaslRefusedError("the last message of SCRAM does not belong to the first one")
        said = f"{self._said},{found['unproved']}".encode()
        proof, signature = decode_base64(found["proof"]), mechanism.hmac(keys.stored_key, said)
        if len(proof) != len(signature):
            raise SaslRefusedError("the proof of SCRAM has another length")
        proved = hmac.compare_digest(mechanism.hash(exclusive_or(proof, signature)), keys.stored_key)
        if not (proved and self._is_known):
            raise SaslRefusedError("the user is unknown or the password is wrong")
        if self._identity not in ("", self._name):
            raise SaslRefusedError("the client asks to act as another user", shown=_OTHER_IDENTITY)
        self._user = self._name
        return b"v=" + encode_base64(mechanism.hmac(keys.server_key, said)).encode()


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise SaslRefusedError("a message of SCRAM is not UTF-8") from None
