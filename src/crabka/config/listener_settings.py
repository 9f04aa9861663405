"""The settings that are in force for one listener: its own, `listener.name.<name>.<setting>`, over those of the node.

As in Kafka, the name of the listener is written in lower case in such a key. A SASL mechanism may stand between the
listener and the setting: `listener.name.internal.scram-sha-512.sasl.jaas.config`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crabka.config.listeners import PLAINTEXT
from crabka.config.settings.table import SERVER_KEYS
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from crabka.config.keys import ConfigKey, Value
    from crabka.config.server import ServerConfig

LISTENER_PREFIX: Final = "listener.name."
_SECURITY: Final = ("ssl.", "sasl.")


@dataclass(frozen=True, slots=True, repr=False)
class ListenerSettings:
    """The settings of one listener. They may hold secrets, so the object has no text."""

    name: str
    security_protocol: str
    own: Mapping[str, str]
    """What is set for this listener alone, without the prefix."""
    node: Mapping[str, Value]
    """The parsed settings of the node."""

    @property
    def uses_tls(self) -> bool:
        """True for SSL and SASL_SSL."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """True for SASL_PLAINTEXT and SASL_SSL."""
        return self.security_protocol.startswith("SASL")

    def value(self, key: str, mechanism: str | None = None) -> Value:
        """Return the parsed value of a known setting: of the mechanism, else of the listener, else of the node.

        Raises ConfigError, which names the key as it was written, and KeyError for an unknown key.
        """
        for name in ([] if mechanism is None else [f"{mechanism.lower()}.{key}"]) + [key]:
            text = self.own.get(name)
            if text is not None:
                return _parse(SERVER_KEYS[key], text, written_as=f"{self.prefix}{name}")
        return self.node[key]

    def is_own(self, key: str) -> bool:
        """Return whether a setting is given for this listener, not only for the node."""
        return key in self.own

    def place_of(self, key: str) -> str:
        """Return the key as it is to be written where its value is from, for messages."""
        return f"{self.prefix}{key}" if key in self.own else key

    @property
    def prefix(self) -> str:
        """What stands before the settings of this listener."""
        return f"{LISTENER_PREFIX}{self.name.lower()}."


def listener_settings(config: ServerConfig, name: str) -> ListenerSettings:
    """Return the settings in force for a listener, also for one of another node that this node connects to."""
    name = name.upper()
    prefix = f"{LISTENER_PREFIX}{name.lower()}."
    own = {key.removeprefix(prefix): text for key, text in config.given.items() if key.startswith(prefix)}
    return ListenerSettings(name, config.security_protocols.get(name, PLAINTEXT), own, config.values)


def listener_key(name: str) -> ConfigKey | None:
    """Return the declaration of a setting that is given for one listener; None if it is not, or is unknown."""
    return SERVER_KEYS.get(plain_name(name)) if name.startswith(LISTENER_PREFIX) else None


def plain_name(name: str) -> str:
    """Return a key without the prefix of a listener."""
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2] if name.startswith(LISTENER_PREFIX) else name


def listener_key_warning(name: str, listeners: Collection[str]) -> str | None:
    """Return the warning for a setting of a listener that is nowhere configured, or of TLS or SASL and unknown."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, _, key = name.removeprefix(LISTENER_PREFIX).partition(".")
    known = [each.lower() for each in listeners]
    if listener not in known:
        nearest = difflib.get_close_matches(listener.lower(), known, n=1, cutoff=0.6)
        hint = f", did you mean {LISTENER_PREFIX}{nearest[0]}.{key}?" if nearest else ""
        return f"{name} has no effect: no listener has this name{hint}"
    base = key if key.startswith(_SECURITY) else key.partition(".")[2]
    if base in SERVER_KEYS or not base.startswith(_SECURITY):
        return None
    nearest = difflib.get_close_matches(base, SERVER_KEYS, n=1, cutoff=0.6)
    return f"unknown setting {name}" + (f", did you mean {name.removesuffix(base)}{nearest[0]}?" if nearest else "")


def check_listener_values(given: Mapping[str, str]) -> None:
    """Raise ConfigError, which names the whole key, for a value that the setting cannot have."""
    for name, text in given.items():
        key = listener_key(name)
        if key is not None:
            _parse(key, text, written_as=name)


def _parse(key: ConfigKey, text: str, *, written_as: str) -> Value:
    try:
        return key.parse(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace(key.name, written_as)) from error
