"""Settings of a client metrics subscription (KIP-714)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crabka.config.keys import INT, LIST, ConfigKey, Value, index_keys
from crabka.config.validators import ListOf
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 3_600_000
_SELECTORS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)

CLIENT_METRICS_KEYS: Mapping[str, ConfigKey] = index_keys(
    (
        ConfigKey("metrics", LIST, (), "Prefixes of the metrics that clients send; `*` means all.", ListOf()),
        ConfigKey("interval.ms", INT, 300_000, "How often clients send them."),
        ConfigKey("match", LIST, (), "Which clients send: selector=regular expression, separated by commas.", ListOf()),
    )
)
"""All settings of a subscription by name."""


class SubscriptionError(ConfigError):
    """A subscription that Kafka refuses as INVALID_REQUEST, where other bad settings are INVALID_CONFIG."""


def parse_client_metrics_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Parse the settings of a subscription. Raises ConfigError in Kafka's words."""
    parsed: dict[str, Value] = {}
    for name, text in overrides.items():
        key = CLIENT_METRICS_KEYS.get(name)
        if key is None:
            raise SubscriptionError(f"Unknown client metrics configuration: {name}")
        parsed[name] = key.parse(text)
    interval = parsed.get("interval.ms")
    if isinstance(interval, int) and not _MIN_INTERVAL_MS <= interval <= _MAX_INTERVAL_MS:
        raise SubscriptionError(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    for pattern in parsed.get("match") or ():  # type: ignore[union-attr]
        _check_pattern(str(pattern))
    return parsed


def _check_pattern(pattern: str) -> None:
    selector, separator, expression = (part.strip() for part in pattern.partition("="))
    try:
        re.compile(expression)
    except re.error:
        expression = ""
    if not separator or selector not in _SELECTORS or not expression:
        raise ConfigError(f"Illegal client matching pattern: {pattern}")
