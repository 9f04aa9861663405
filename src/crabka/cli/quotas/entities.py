"""Options that name whom a quota is about, and texts that name quotas."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Final

import typer

from crabka.cli.units import config_value
from crabka.clients.admin.quotas import Entity
from crabka.errors import ConfigError

USER, CLIENT_ID, IP = "user", "client-id", "ip"
BYTE_RATES: Final = ("producer_byte_rate", "consumer_byte_rate")
CLIENT_KEYS: Final = (*BYTE_RATES, "request_percentage", "controller_mutation_rate")
IP_KEYS: Final = ("connection_creation_rate",)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityOptions:
    """Users, client ids and addresses, as options name them."""

    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user.", show_default=False)] = None
    user_default: Annotated[bool, typer.Option("--user-default", help="Each user without quotas of its own.")] = False
    client_id: Annotated[
        str | None, typer.Option("--client-id", metavar="NAME", help="A client id.", show_default=False)
    ] = None
    client_id_default: Annotated[
        bool, typer.Option("--client-id-default", help="Each client id without quotas of its own.")
    ] = False
    ip: Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address.", show_default=False)] = None
    ip_default: Annotated[bool, typer.Option("--ip-default", help="Each address without a quota of its own.")] = False

    def entity(self) -> dict[str, str | None]:
        """Return the entity; empty if no option names one. Raises ConfigError."""
        found: dict[str, str | None] = {}
        for kind, name, default in (
            (USER, self.user, self.user_default),
            (CLIENT_ID, self.client_id, self.client_id_default),
            (IP, self.ip, self.ip_default),
        ):
            if name is not None and default:
                raise ConfigError(f"--{kind} and --{kind}-default exclude each other")
            if name == "":
                raise ConfigError(f"--{kind}: the name is empty; --{kind}-default names the default")
            if name is not None or default:
                found[kind] = name
        if IP in found and len(found) > 1:
            raise ConfigError("--ip goes with no user and no client id")
        if self.ip is not None:
            _check_address(self.ip)
        return found

    def named_entity(self) -> dict[str, str | None]:
        """Return the entity. Raises ConfigError if no option names one."""
        found = self.entity()
        if not found:
            raise ConfigError("name whom it is about: --user, --user-default, --client-id, --client-id-default or --ip")
        return found


def ordered(entity: Entity) -> dict[str, str | None]:
    """Return an entity with its user first: clusters answer in any order."""
    kinds = [USER, CLIENT_ID, IP, *sorted(entity)]
    return {kind: entity[kind] for kind in kinds if kind in entity}


def entity_text(entity: Entity) -> str:
    """Return an entity as people read it."""
    parts = [f"default {kind}" if name is None else f"{kind} {name}" for kind, name in ordered(entity).items()]
    return ", ".join(parts)


def check_new_user(entity: Entity) -> None:
    """Refuse the name of a user that is most likely a mistake. Raises ConfigError."""
    name = entity.get(USER) or ""
    if name.startswith("User:"):
        plain = name.removeprefix("User:")
        raise ConfigError(f"--user {name}: write {plain or 'NAME'}; only ACLs name users with User:")


def parse_quotas(texts: Iterable[str], entity: Entity) -> dict[str, float]:
    """Return the quotas of texts such as `producer_byte_rate=10MB`. Raises ConfigError."""
    quotas: dict[str, float] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not value.strip():
            raise ConfigError(f"{text}: not of the form KEY=VALUE, such as producer_byte_rate=10MB")
        check_key(key, entity)
        if key in quotas:
            raise ConfigError(f"{key} is given twice")
        quotas[key] = _number(key, value.strip())
    return quotas


def check_key(key: str, entity: Entity) -> None:
    """Refuse quotas that an entity cannot have. Raises ConfigError."""
    keys = IP_KEYS if IP in entity else CLIENT_KEYS
    if key not in keys:
        raise ConfigError(f"{key}: not a quota of {entity_text(entity)}; there are {', '.join(keys)}")


def _number(key: str, text: str) -> float:
    plain = text
    if key in BYTE_RATES:
        plain = config_value(key, text.removesuffix("/s"))
    elif key == "request_percentage":
        plain = text.removesuffix("%").rstrip()
    try:
        number = float(plain)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        example = "10MB" if key in BYTE_RATES else "50"
        raise ConfigError(f"{key}={text}: not a number above 0, such as {example}")
    return number


def _check_address(text: str) -> None:
    try:
        ip_address(text)
    except ValueError as error:
        raise ConfigError(f"--ip {text}: not an address, such as 10.0.0.7") from error
