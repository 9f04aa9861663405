"""Settings as a test writes them: typed values become Kafka's text, and a name that Kafka does not have is refused.

A node that an operator starts only warns of unknown names, as Kafka does. In a test a misspelt name is a mistake.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crabka.config.keys import to_text
from crabka.config.presets import tiered_node_properties
from crabka.config.server import ServerConfig
from crabka.config.settings.security import AUTHORIZER_KEYS
from crabka.config.settings.table import SERVER_KEYS, unknown_key_warning
from crabka.errors import ConfigError

Setting = bool | int | float | str | os.PathLike[str]
Settings = Mapping[str, Setting]
NO_SETTINGS: Final[Settings] = {}

# What makes several nodes one cluster. A broker that was given them would be a cluster of its own all the same.
_OF_CLUSTERS: Final = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_ROLES = "process.roles"


def settings_text(settings: Settings) -> dict[str, str]:
    """Return the settings as Kafka's properties. Raises ConfigError for a name or a value that is no text or number."""
    if not isinstance(settings, Mapping):
        raise ConfigError(f"settings are a mapping of Kafka's names to values, not {_kind(settings)}")
    texts = {_checked_name(name): _text(name, value) for name, value in settings.items()}
    for name, text in texts.items():
        if "\0" in text:
            raise ConfigError(f"{name}: a value has no null bytes")
    return texts


def refuse_quorum(settings: Mapping[str, str], instead: str) -> None:
    """Raise ConfigError for settings that say who is in the quorum, with what to do instead."""
    for name in _OF_CLUSTERS:
        if settings.get(name):
            raise ConfigError(f"{name} cannot be set: {instead}")
    roles = {role.strip() for role in settings.get(_ROLES, "").split(",")} - {""}
    if roles and roles != {"broker", "controller"}:
        raise ConfigError(f"{_ROLES}={settings[_ROLES]}: an embedded node is always broker and controller")


def check_settings(properties: Mapping[str, str], given: Mapping[str, str]) -> ServerConfig:
    """Parse all properties of a node, and refuse the `given` names among them that mean nothing. Raises ConfigError."""
    config, _warnings = ServerConfig.from_properties(properties)
    prefixes = (config.remote_log_storage_manager_impl_prefix, config.remote_log_metadata_manager_impl_prefix)
    for name in given:
        if name in AUTHORIZER_KEYS and config.authorizer_class_name:
            continue
        if name not in SERVER_KEYS and (reason := unknown_key_warning(name, prefixes)) is not None:
            raise ConfigError(reason)
    return config


def _checked_name(name: Any) -> str:
    if name == "":
        raise ConfigError("the name of a setting is empty")
    if not isinstance(name, str):
        raise ConfigError(f"the name of a setting is a string, not {_kind(name)} ({name!r})")
    return name


def _text(name: str, value: Any) -> str:
    match value:
        case float() if not math.isfinite(value):
            raise ConfigError(f"{name}: {value} is no value of a setting")
        case bool() | int() | float() | str():
            return to_text(value)
        case os.PathLike() if isinstance(text := os.fspath(value), str):
            return text
        case list() | tuple() | set() | frozenset():
            raise ConfigError(f"{name}: give a list as text with commas, such as {','.join(map(str, value))!r}")
        case None:
            raise ConfigError(f"{name}: None is no value: leave the setting out to have its default")
    raise ConfigError(f"{name}: a value is a bool, a number, a string or a path, not {_kind(value)}")


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def tier_settings(tier: str | os.PathLike[str], nodes: int = 1) -> dict[str, str]:
    """Return the settings of a tier: a directory, or an address such as s3://bucket/prefix. Raises ConfigError."""
    # The libraries of object stores are loaded only with a tier.
    from crabka.remote.backends.url import storage_settings_of_url

    place = os.fspath(tier)
    storage = storage_settings_of_url(place if "://" in place else str(Path(place).resolve()))
    return tiered_node_properties(storage, node_count=nodes)
