"""Listener lists: `NAME://host:port,...`, the security protocol of each name, and what other nodes dial."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabka.config.server import ServerConfig

PLAINTEXT = "PLAINTEXT"
# What Kafka puts where a listener is bound to all addresses and none is advertised.
_ANY_ADDRESS_HOST = "localhost"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""In the order of their numbers on the wire."""
_ENDPOINT = re.compile(r"(?P<name>[^:/\s]+)://(?P<host>\[[0-9a-fA-F:.%\w]*\]|[^:/\s\[\]]*):(?P<port>-?[0-9]+)\Z")


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """One address under which a node listens or is reached. An empty host means all addresses."""

    name: str
    host: str
    port: int
    security_protocol: str = PLAINTEXT

    @property
    def security_protocol_id(self) -> int:
        """The number of the protocol, as nodes register it."""
        return SECURITY_PROTOCOLS.index(self.security_protocol)

    def __str__(self) -> str:
        return f"{self.name}://{format_address(self.host, self.port)}"


def format_address(host: str, port: int) -> str:
    """Return host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """Split host:port; an IPv6 address stands in brackets. Raises ConfigError."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or not port.isdecimal() or not 0 <= int(port) <= 65535 or (":" in host and host[:1] != "["):
        raise ConfigError(f"{text!r} is not an address of the form HOST:PORT")
    return host.strip("[]"), int(port)


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse `listener.security.protocol.map`. Raises ConfigError."""
    result: dict[str, str] = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, separator, protocol = (piece.strip() for piece in part.partition(":"))
        if not separator or protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(f"listener.security.protocol.map: {part!r} is not NAME:PROTOCOL with a known protocol")
        if name.upper() in result:
            raise ConfigError(f"listener.security.protocol.map: {name} is mapped twice")
        result[name.upper()] = protocol.upper()
    return result


def parse_endpoints(key: str, texts: Sequence[str], protocols: Mapping[str, str]) -> tuple[ListenerAddress, ...]:
    """Parse the members of `listeners` or `advertised.listeners`. Raises ConfigError."""
    endpoints = tuple(_parse_endpoint(key, text, protocols) for text in texts)
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key}: each listener must have a different name, got {','.join(texts)}")
    return endpoints


def listener_name_of(text: str) -> str:
    """Return the name in NAME://HOST:PORT, as listeners are compared."""
    return text.strip().partition(":")[0].upper()


def _parse_endpoint(key: str, text: str, protocols: Mapping[str, str]) -> ListenerAddress:
    match = _ENDPOINT.match(text.strip())
    if match is None or not -1 <= int(match["port"]) <= 65535:
        raise ConfigError(f"{key}: {text!r} is not a listener of the form NAME://HOST:PORT")
    name = match["name"].upper()
    if name not in protocols:
        raise ConfigError(f"{key}: no security protocol is defined for listener {name}")
    return ListenerAddress(name, match["host"].strip("[]"), int(match["port"]), protocols[name])


def check_ports(endpoints: Sequence[ListenerAddress]) -> None:
    """Raise ConfigError when two listeners would bind the same address; port 0 picks a free one."""
    taken: dict[tuple[str, int], str] = {}
    for endpoint in endpoints:
        address = (endpoint.host, endpoint.port)
        if endpoint.port != 0 and address in taken:
            raise ConfigError(f"listeners: {taken[address]} and {endpoint.name} have the same port {endpoint.port}")
        taken[address] = endpoint.name


def controller_endpoints(config: ServerConfig) -> tuple[ListenerAddress, ...]:
    """Return the controller listeners as peers dial them, in the order of `controller.listener.names`.

    An entry of `advertised.listeners` wins over the one of `listeners`; empty for a node that is only a broker.
    """
    protocols = {listener.name: listener.security_protocol for listener in config.controller_listeners}
    given = cast("tuple[str, ...]", config.value("advertised.listeners") or ())
    ours = [text for text in given if listener_name_of(text) in protocols]
    known = {listener.name: listener for listener in config.controller_listeners}
    known |= {listener.name: listener for listener in parse_endpoints("advertised.listeners", ours, protocols)}
    return tuple(_reachable(known[name]) for name in config.controller_listener_names if name in known)


def _reachable(listener: ListenerAddress) -> ListenerAddress:
    if listener.host:
        return listener
    return ListenerAddress(listener.name, _ANY_ADDRESS_HOST, listener.port, listener.security_protocol)
