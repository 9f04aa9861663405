"""The protection of connections that a node opens itself: to brokers, to controllers, and to its own metadata topic.

As in Kafka, what protects a listener protects the connections to it as well: the protocol of the listener, its settings
with and without its prefix, and the user of its JAAS entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crabka.clients.security.sasl import MECHANISMS, SaslCredentials
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.clients.security.settings import SecuritySettings
from crabka.clients.security.store_settings import listener_stores
from crabka.config.listener_settings import ListenerSettings, listener_settings
from crabka.errors import ConfigError
from crabka.security.sasl.listener_rules import jaas_key, login_entry
from crabka.security.secret import Secret

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig

_TO_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
_TO_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """The protection of connections to other nodes, and to this node as a client of itself."""

    brokers: ClientSecurity = UNPROTECTED
    controllers: ClientSecurity = UNPROTECTED

    @classmethod
    def load(cls, config: ServerConfig) -> NodeSecurity:
        """Read what the settings of a node name. Raises ConfigError."""
        brokers = broker_security(config, config.inter_broker_listener_name) if config.is_broker else UNPROTECTED
        controllers = _outgoing(config, config.controller_listener_names[0], _TO_CONTROLLERS)
        return cls(brokers, controllers)


def broker_security(config: ServerConfig, listener: str) -> ClientSecurity:
    """Return the protection of connections to a listener of brokers. Raises ConfigError."""
    return _outgoing(config, listener, _TO_BROKERS)


def _outgoing(config: ServerConfig, listener: str, mechanism_key: str) -> ClientSecurity:
    settings = listener_settings(config, listener)
    if config.insecure_ignore_security or not (settings.uses_sasl or settings.uses_tls):
        return UNPROTECTED
    sasl = _credentials(settings, mechanism_key) if settings.uses_sasl else None
    return ClientSecurity.load(SecuritySettings(listener_stores(settings) if settings.uses_tls else None, sasl))


def _credentials(settings: ListenerSettings, mechanism_key: str) -> SaslCredentials:
    mechanism = str(settings.node[mechanism_key])
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"{mechanism_key}: {mechanism} is not supported at listener {settings.name}, set it to one of"
            f" {', '.join(MECHANISMS)}"
        )
    entry, key = login_entry(settings, mechanism), jaas_key(settings, mechanism)
    if entry is None:
        raise ConfigError(f"{key}: not set, though other nodes are reached through listener {settings.name}")
    for option in ("username", "password"):
        if not entry.options.get(option):
            raise ConfigError(f"{key}: the option {option} is missing, by which this node logs in at others")
    return SaslCredentials(mechanism, entry.options["username"], Secret(entry.options["password"]))
