"""The settings of the metadata topic: the keys below `rlmm.config.`, with Kafka's names, defaults and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crabka.config.keys import INT, LONG, SHORT, ConfigKey, Value, index_keys, invalid
from crabka.config.server import ServerConfig
from crabka.config.validators import at_least
from crabka.errors import ConfigError

METADATA_TOPIC: Final = "__remote_log_metadata"

_PREFIX: Final = "remote.log.metadata."
_COMMON_PREFIX: Final = f"{_PREFIX}common.client."
_CLIENT_PREFIXES: Final = (f"{_PREFIX}producer.", f"{_PREFIX}consumer.", f"{_PREFIX}admin.")
# The clients share their connections: security is that of all of them, and refused where it is for one of them.
_SECURITY_PREFIXES: Final = ("security.", "sasl.", "ssl.")
_FOR_EVER: Final = -1


@dataclass(frozen=True, slots=True)
class ForEverOrPositive:
    """A time that is -1 or above zero, as Kafka wants the retention of the topic."""

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigError for another number."""
        if isinstance(value, int) and value <= 0 and value != _FOR_EVER:
            raise invalid(name, value, "Value must be -1 or above 0")

    def describe(self) -> str:
        """Return the allowed values."""
        return "-1 or [1,...]"


METADATA_TOPIC_KEYS: Final = index_keys(
    (
        ConfigKey(
            f"{_PREFIX}topic.num.partitions", INT, 50, "Partitions of the topic when it is created.", at_least(1)
        ),
        ConfigKey(
            f"{_PREFIX}topic.replication.factor", SHORT, 3, "Replicas of the topic when it is created.", at_least(1)
        ),
        ConfigKey(f"{_PREFIX}topic.min.isr", SHORT, 2, "Replicas that must have an event.", at_least(1)),
        ConfigKey(f"{_PREFIX}topic.retention.ms", LONG, _FOR_EVER, "How long events are kept.", ForEverOrPositive()),
        ConfigKey(
            f"{_PREFIX}consume.wait.ms", LONG, 120_000, "How long a change may take to be seen here.", at_least(0)
        ),
        ConfigKey(
            f"{_PREFIX}initialization.retry.interval.ms",
            LONG,
            100,
            "The pause before the topic is asked for again at start.",
            at_least(0),
        ),
        ConfigKey(
            f"{_PREFIX}initialization.retry.max.timeout.ms",
            LONG,
            120_000,
            "After this time without the topic its lack is reported as an error; the broker serves what is local.",
            at_least(0),
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTopicSettings:
    """How the metadata topic is made and used."""

    num_partitions: int = 50
    replication_factor: int = 3
    min_isr: int = 2
    retention_ms: int = _FOR_EVER
    consume_wait_ms: int = 120_000
    initialization_retry_interval_ms: int = 100
    initialization_retry_max_timeout_ms: int = 120_000
    security: Mapping[str, str] | None = field(default=None, repr=False)
    """The properties of TLS and SASL for all clients; None if they are those of the node's own connections."""

    @classmethod
    def from_server(cls, config: ServerConfig) -> RemoteTopicSettings:
        """Return the settings among those of a node. Raises ConfigError."""
        return cls.from_properties(config.prefixed(config.remote_log_metadata_manager_impl_prefix))

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RemoteTopicSettings:
        """Return the settings; names are without `rlmm.config.`, unknown ones are ignored.

        Raises ConfigError for a value that Kafka refuses, and for security of one kind of client alone.
        """
        for name in properties:
            _refuse_security(name)
        fields: dict[str, Any] = {
            name.removeprefix(_PREFIX).removeprefix("topic.").replace(".", "_"): (
                key.parse(properties[name]) if name in properties else key.default_value
            )
            for name, key in METADATA_TOPIC_KEYS.items()
        }
        security = {
            name.removeprefix(_COMMON_PREFIX): text
            for name, text in properties.items()
            if name.startswith(_COMMON_PREFIX) and name.removeprefix(_COMMON_PREFIX).startswith(_SECURITY_PREFIXES)
        }
        return cls(**fields, security=security or None)

    def topic_configs(self) -> dict[str, str]:
        """Return the configs of the topic when it is created."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "retention.bytes": str(_FOR_EVER),
            "min.insync.replicas": str(self.min_isr),
            "remote.storage.enable": "false",
            # An event lets segments leave the disks of all replicas: it must survive a power cut of all of them.
            "flush.messages": "1",
        }


def _refuse_security(name: str) -> None:
    for prefix in _CLIENT_PREFIXES:
        if name.startswith(prefix) and name.removeprefix(prefix).startswith(_SECURITY_PREFIXES):
            raise ConfigError(f"{name} is not supported: set it for all clients, by {_COMMON_PREFIX}*")
