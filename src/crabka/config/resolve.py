"""Layers of settings, as DescribeConfigs reports them: each value with its source and with what lies below it.

A broker value comes from the first of: the broker's own dynamic setting, the cluster-wide dynamic default, the
properties file, the built-in default. A topic or group setting of its own lies above all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from crabka.config.client_metrics import CLIENT_METRICS_KEYS, parse_client_metrics_overrides
from crabka.config.group import GROUP_KEYS, broker_synonym
from crabka.config.keys import ConfigKey, Value, to_text
from crabka.config.server import TOPIC_SYNONYMS, ServerConfig, topic_default_values, with_aliases
from crabka.config.settings.table import DYNAMIC_ONLY_KEYS, SERVER_KEYS
from crabka.config.settings.tiering import TIER_ADDRESS_KEYS
from crabka.config.topic import TOPIC_KEYS, parse_topic_overrides

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TYPE_UNKNOWN = 0
_LISTENER_PREFIX = "listener.name."
# Kafka treats these as one setting in several units, the first one winning.
_SYNONYM_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FAMILY_OF = {name: family for family in _SYNONYM_FAMILIES for name in family}


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """One layer of a value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a resource, as DescribeConfigs reports it."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    type: int
    doc: str | None
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        """True if the value is a default (the flag of DescribeConfigs version 0)."""
        return self.source is ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True)
class BrokerLayers:
    """The settings of one broker in layers; compute it once and describe many resources with it."""

    server: ServerConfig
    dynamic_broker: Mapping[str, str]
    dynamic_default: Mapping[str, str]

    @cached_property
    def effective(self) -> ServerConfig:
        """The settings that count: dynamic ones over static ones."""
        return self.server.with_dynamic(self.dynamic_default, self.dynamic_broker)

    @cached_property
    def _static(self) -> dict[str, str]:
        return with_aliases(self.server.static)

    @cached_property
    def _topic_defaults(self) -> dict[str, Value]:
        return topic_default_values(self.effective)

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Return the layers of a broker setting, the strongest first.

        A member of a family such as log.retention.{ms,minutes,hours} lists the weaker members too, but only behind
        an entry of its own name. The setting of one listener lists that of all listeners after it.
        """
        names = _names_of(name)
        layers = (
            (self.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        found = [Synonym(each, layer[each], source) for layer, source in layers for each in names if each in layer]
        for each in names:
            text = SERVER_KEYS[each].default_text if each in SERVER_KEYS else None
            if text is not None:
                found.append(Synonym(each, text, ConfigSource.DEFAULT_CONFIG))
        start = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
        return tuple(_hidden(found[start:]) if _is_sensitive(name) else found[start:])

    def describe_topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all settings of a topic with the given ones of its own."""
        own = parse_topic_overrides({name: text for name, text in overrides.items() if name in TOPIC_KEYS})
        entries = []
        for name, key in TOPIC_KEYS.items():
            if key.internal and name not in overrides:
                continue
            synonyms = _own_layer(name, overrides, ConfigSource.DYNAMIC_TOPIC_CONFIG)
            if name in TOPIC_SYNONYMS:
                synonyms += self.synonyms(TOPIC_SYNONYMS[name])
            value = own[name] if name in own else self._topic_defaults.get(name, key.default_value)
            entries.append(_entry(key, value, synonyms, read_only=False))
        return entries

    def describe_group(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all settings of a group with the given ones of its own."""
        entries = []
        for name, key in GROUP_KEYS.items():
            synonyms = _own_layer(name, overrides, ConfigSource.GROUP_CONFIG)
            broker_name = broker_synonym(name)
            value: Value = key.default_value
            if broker_name is not None:
                synonyms += self.synonyms(broker_name)
                value = self.effective.values[broker_name]
            else:
                synonyms += (Synonym(name, key.default_text, ConfigSource.DEFAULT_CONFIG),)
            if name in overrides:
                value = key.parse(overrides[name])
            entries.append(_entry(key, value, synonyms, read_only=False))
        return entries

    def describe_broker(self) -> list[ConfigEntry]:
        """Return all settings of the broker; internal ones only where they are set."""
        given = {**self._static, **self.dynamic_default, **self.dynamic_broker}
        names = {name for name, key in SERVER_KEYS.items() if not key.internal} | set(given)
        return [self._broker_entry(name, given.get(name)) for name in sorted(names)]

    def _broker_entry(self, name: str, text: str | None) -> ConfigEntry:
        key = _broker_key(name)
        synonyms = self.synonyms(name)
        if key is None:
            source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
            hidden = _is_sensitive(name)
            shown = None if hidden else text
            return ConfigEntry(name, shown, source, hidden, True, TYPE_UNKNOWN, None, synonyms)  # noqa: FBT003
        value = self.effective.values[name] if name in self.effective.values else key.parse(text or "")
        # Kafka changes settings of single listeners too, and reports them as read-only all the same.
        return _entry(key, value, synonyms, read_only=name != key.name or not key.dynamic, name=name)

    def describe_cluster_default(self) -> list[ConfigEntry]:
        """Return the cluster-wide dynamic settings: the broker resource with an empty name."""
        entries = []
        for name, text in sorted(self.dynamic_default.items()):
            key = _broker_key(name)
            shown = None if _is_sensitive(name) else text
            synonym = Synonym(name, shown, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            entries.append(
                ConfigEntry(
                    name=name,
                    value=shown,
                    source=ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
                    is_sensitive=shown is None,
                    read_only=key is not None and not key.dynamic,
                    type=TYPE_UNKNOWN if key is None else key.type,
                    doc=None if key is None else key.doc,
                    synonyms=(synonym,),
                )
            )
        return entries


def describe_topic_configs(
    topic_overrides: Mapping[str, str],
    server: ServerConfig,
    dynamic_broker: Mapping[str, str],
    dynamic_default: Mapping[str, str],
) -> list[ConfigEntry]:
    """Return all settings of a topic; see `BrokerLayers.describe_topic`."""
    return BrokerLayers(server, dynamic_broker, dynamic_default).describe_topic(topic_overrides)


def describe_broker_configs(
    server: ServerConfig, dynamic_broker: Mapping[str, str], dynamic_default: Mapping[str, str]
) -> list[ConfigEntry]:
    """Return all settings of a broker; see `BrokerLayers.describe_broker`."""
    return BrokerLayers(server, dynamic_broker, dynamic_default).describe_broker()


def describe_group_configs(
    overrides: Mapping[str, str],
    server: ServerConfig,
    dynamic_broker: Mapping[str, str],
    dynamic_default: Mapping[str, str],
) -> list[ConfigEntry]:
    """Return all settings of a group; see `BrokerLayers.describe_group`."""
    return BrokerLayers(server, dynamic_broker, dynamic_default).describe_group(overrides)


def describe_client_metrics_configs(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all settings of a client metrics subscription."""
    own = parse_client_metrics_overrides(overrides)
    return [
        _entry(
            key,
            own.get(name, key.default_value),
            _own_layer(name, overrides, ConfigSource.CLIENT_METRICS_CONFIG),
            read_only=False,
        )
        for name, key in CLIENT_METRICS_KEYS.items()
    ]


def describe_broker_loggers(levels: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the log level of each logger of a broker."""
    return [
        ConfigEntry(
            name=name,
            value=level,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            is_sensitive=False,
            read_only=False,
            type=TYPE_UNKNOWN,
            doc=None,
            synonyms=(),
        )
        for name, level in sorted(levels.items())
    ]


def _name_without_listener(name: str) -> str:
    """Return the name of a setting that may be given for a single listener."""
    return name.split(".", 3)[-1] if name.startswith(_LISTENER_PREFIX) else name


def _names_of(name: str) -> tuple[str, ...]:
    """Return the names under which a broker setting may be given, the strongest first."""
    common = _name_without_listener(name)
    family = _FAMILY_OF.get(common, (common,))
    return family if common == name else (name, *family)


def _broker_key(name: str) -> ConfigKey | None:
    """Return the declaration of a broker setting, also of one that is given for a single listener."""
    name = _name_without_listener(name)
    return SERVER_KEYS.get(name) or DYNAMIC_ONLY_KEYS.get(name)


def _is_sensitive(name: str) -> bool:
    """Kafka hides what it does not know: it may be the password of a plug-in. Where the tier is, is no secret."""
    key = _broker_key(name)
    return name not in TIER_ADDRESS_KEYS if key is None else key.sensitive


def _hidden(synonyms: Iterable[Synonym]) -> list[Synonym]:
    return [synonym._replace(value=None) for synonym in synonyms]


def _own_layer(name: str, overrides: Mapping[str, str], source: ConfigSource) -> tuple[Synonym, ...]:
    return (Synonym(name, overrides[name], source),) if name in overrides else ()


def _entry(
    key: ConfigKey, value: Value, synonyms: tuple[Synonym, ...], *, read_only: bool, name: str | None = None
) -> ConfigEntry:
    return ConfigEntry(
        name=name or key.name,
        value=None if value is None or key.sensitive else to_text(value),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=key.sensitive,
        read_only=read_only,
        type=key.type,
        doc=key.doc,
        synonyms=synonyms,
    )
