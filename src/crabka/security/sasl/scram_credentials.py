"""Credentials of SCRAM users on their way into the metadata, and the texts of `--add-scram` (KIP-900)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from crabka.errors import ConfigError
from crabka.metadata.records import UserScramCredentialRecord
from crabka.metadata.security import ScramKey
from crabka.security.sasl.scram_keys import (
    MAX_STORED_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    decode_base64,
    salted_password,
    stored_keys,
)
from crabka.security.secret import Secret

SCRAM_METADATA_VERSION: Final = 11
"""3.5-IV2, the first that has the records."""
_OPTION: Final = "--add-scram"
_NUMBERS: Final = {mechanism.name: number for number, mechanism in SCRAM_MECHANISMS.items()}
_FIELDS: Final = ("name", "salt", "iterations", "password", "saltedpassword")


@dataclass(frozen=True, slots=True, repr=False)
class SaltedCredential:
    """What a client sends of a password. It permits to log in, so the object has no text."""

    key: ScramKey
    iterations: int
    salt: bytes
    salted_password: bytes


def scram_record(credential: SaltedCredential) -> UserScramCredentialRecord:
    """Return what is stored of a credential: keys that permit no log-in."""
    mechanism, user = credential.key
    salted, salt = credential.salted_password, credential.salt
    keys = stored_keys(SCRAM_MECHANISMS[mechanism], salted, salt, credential.iterations)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=keys.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=keys.iterations,
    )


def parse_credential(text: str, new_salt: Callable[[], bytes]) -> SaltedCredential:
    """Return the credential of a text such as `SCRAM-SHA-512=[name=admin,password=...]`, as kafka-storage reads it.

    Takes milliseconds of CPU. Raises ConfigError, which shows nothing of the text but the mechanism and the name.
    """
    name, _, rest = text.strip().partition("=")
    number = _NUMBERS.get(name)
    if number is None:
        raise ConfigError(f"{_OPTION}: it does not begin with one of {', '.join(f'{each}=[' for each in _NUMBERS)}")
    if not (rest.startswith("[") and rest.endswith("]")):
        raise ConfigError(f"{_OPTION} {name}: what follows the mechanism is not in square brackets")
    fields = _fields(name, rest[1:-1])
    user = fields.get("name")
    if not user:
        raise ConfigError(f"{_OPTION} {name}: name= is missing")
    place = f"{_OPTION} {name} of {user}"
    iterations = _iterations(place, fields.get("iterations"))
    salt = _decoded(place, fields, "salt")
    if "password" in fields:
        salt = new_salt() if salt is None else salt
        salted = salted_password(SCRAM_MECHANISMS[number], Secret(fields["password"]), salt, iterations)
        return SaltedCredential(ScramKey(number, user), iterations, salt, salted)
    given = _decoded(place, fields, "saltedpassword")
    if given is None:
        raise ConfigError(f"{place}: password= or saltedpassword= is missing")
    if salt is None:
        raise ConfigError(f"{place}: saltedpassword= needs salt=")
    return SaltedCredential(ScramKey(number, user), iterations, salt, given)


def _fields(mechanism: str, text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator or name not in _FIELDS:
            # The part may be the rest of a password with a comma.
            raise ConfigError(
                f"{_OPTION} {mechanism}: a part between commas does not begin with one of"
                f" {', '.join(f'{each}=' for each in _FIELDS)}; values cannot have commas"
            )
        is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
        fields[name] = value[1:-1] if is_quoted else value
    return fields


def _iterations(place: str, text: str | None) -> int:
    if text is None:
        return MIN_ITERATIONS
    count = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not MIN_ITERATIONS <= count <= MAX_STORED_ITERATIONS:
        raise ConfigError(f"{place}: iterations= is not a number from {MIN_ITERATIONS} to {MAX_STORED_ITERATIONS}")
    return count


def _decoded(place: str, fields: dict[str, str], name: str) -> bytes | None:
    text = fields.get(name)
    try:
        return None if text is None else decode_base64(text)
    except ValueError:
        raise ConfigError(f"{place}: {name}= is not base64") from None
