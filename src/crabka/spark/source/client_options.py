"""Kafka's client properties among the options: which are refused, and what they say of isolation and security."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from crabka.clients.security_settings import SecuritySettings
from crabka.errors import ConfigError
from crabka.spark.source.option_names import ISOLATION_LEVEL, KAFKA_PREFIX, STARTING_OFFSETS

_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": f"use {STARTING_OFFSETS} to say where to start",
    "key.deserializer": "keys come as bytes; convert them with DataFrame operations",
    "value.deserializer": "values come as bytes; convert them with DataFrame operations",
    "enable.auto.commit": "Spark keeps the offsets of a query in its checkpoint",
    "interceptor.classes": "interceptors could change the records",
}
_READ_COMMITTED: Final = "read_committed"
_LEVELS: Final = ("read_uncommitted", _READ_COMMITTED)
_STORES: Final = (
    ("truststore", "ssl.ca.location"),
    ("keystore", "ssl.certificate.location and ssl.key.location"),
)


def check_client_properties(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for what a query may not set, and for security that cannot be had."""
    for name, instead in _REFUSED.items():
        if name in properties:
            raise ConfigError(f"{KAFKA_PREFIX}{name} is not supported: {instead}")
    if properties.get("security.protocol", "").upper().endswith("SSL"):
        _refuse_java_stores(properties)
    try:
        SecuritySettings.from_properties(properties)
    except ConfigError as error:
        raise ConfigError(f"{KAFKA_PREFIX}{error}") from None


def parse_isolation(options: Mapping[str, str], properties: Mapping[str, str]) -> bool:
    """Return whether only committed records are read. Raises ConfigError for two that differ."""
    names = {
        KAFKA_PREFIX + ISOLATION_LEVEL: properties.get(ISOLATION_LEVEL),
        ISOLATION_LEVEL: options.get(ISOLATION_LEVEL),
    }
    given = {name: value.strip().lower() for name, value in names.items() if value is not None}
    for name, level in given.items():
        if level not in _LEVELS:
            raise ConfigError(f"{name} is one of {', '.join(_LEVELS)}, not {level}")
    if len(set(given.values())) > 1:
        raise ConfigError(f"{' and '.join(given)} differ; give only one of them")
    return _READ_COMMITTED in given.values()


def _refuse_java_stores(properties: Mapping[str, str]) -> None:
    for store, instead in _STORES:
        kind = properties.get(f"ssl.{store}.type", "JKS").strip().upper()
        if kind == "PEM" or not properties.get(f"ssl.{store}.location", "").strip():
            continue
        raise ConfigError(
            f"{KAFKA_PREFIX}ssl.{store}.location is a {kind} store, which only Java reads; convert it by `keytool "
            f"-importkeystore -srckeystore STORE -destkeystore store.p12 -deststoretype PKCS12` and `openssl pkcs12 "
            f"-in store.p12 -out store.pem`, then set {KAFKA_PREFIX}ssl.{store}.type to PEM, or use {instead}"
        )
