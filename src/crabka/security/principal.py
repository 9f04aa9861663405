"""The identity of a client, in the text and wire forms of Kafka's KafkaPrincipal and DefaultKafkaPrincipalBuilder."""

from __future__ import annotations

from typing import Final, NamedTuple

from crabka.errors import WireError

USER: Final = "User"
_VERSION: Final = 0


class Principal(NamedTuple):
    """Who sends requests: a kind, in practice `User`, and a name."""

    kind: str
    name: str
    # True if the client authenticated with a delegation token: it may not create further tokens.
    by_token: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """Return the principal of a text such as `User:alice`; the name may contain colons. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)


def pack_principal(principal: Principal) -> bytes:
    """Return DefaultPrincipalData, version 0, as Envelope carries it."""
    packed = bytearray(_VERSION.to_bytes(2, "big"))
    for text in (principal.kind, principal.name):
        encoded = text.encode()
        packed += _pack_varint(len(encoded) + 1) + encoded
    packed += bytes((principal.by_token, 0))
    return bytes(packed)


def unpack_principal(packed: bytes) -> Principal:
    """Return the principal of DefaultPrincipalData. Raises WireError."""
    if len(packed) < 2 or int.from_bytes(packed[:2], "big") != _VERSION:
        raise WireError("the principal of a forwarded request is not DefaultPrincipalData of version 0")
    kind, position = _unpack_text(packed, 2)
    name, position = _unpack_text(packed, position)
    if position >= len(packed) or packed[position] > 1:
        raise WireError("the principal of a forwarded request does not say whether a token authenticated it")
    return Principal(kind, name, packed[position] == 1)


def _pack_varint(value: int) -> bytes:
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def _unpack_text(packed: bytes, position: int) -> tuple[str, int]:
    length = shift = 0
    while True:
        if position >= len(packed) or shift > 28:
            raise WireError("the principal of a forwarded request ends early")
        byte = packed[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    end = position + length - 1
    if length == 0 or end > len(packed):
        raise WireError("the principal of a forwarded request ends early")
    try:
        return packed[position:end].decode(), end
    except UnicodeDecodeError:
        raise WireError("the principal of a forwarded request is not UTF-8") from None
