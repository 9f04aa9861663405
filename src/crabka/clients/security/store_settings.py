"""The keystore and the truststore in the settings of a listener, as the TLS settings of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.clients.security.settings import TlsSettings, tls_settings
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from crabka.config.listener_settings import ListenerSettings

_STORE_KEYS: Final = (
    *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
    *("ssl.key.password", "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.certificates"),
    "ssl.endpoint.identification.algorithm",
)
# Choices that are OpenSSL's here; without their prefix.
_UNSUPPORTED: Final = ("cipher.suites", "provider")


def listener_stores(settings: ListenerSettings) -> TlsSettings:
    """Return the TLS settings of a listener. Raises ConfigError."""
    for store in ("keystore", "truststore"):
        _check_store(settings, store)
    for key in (f"ssl.{name}" for name in _UNSUPPORTED):
        if settings.value(key):
            raise ConfigError(f"{settings.place_of(key)}: not supported, OpenSSL chooses by itself; remove it")
    properties = {key: str(settings.value(key)) for key in _STORE_KEYS if settings.value(key) is not None}
    for store in ("keystore", "truststore"):
        if settings.value(f"ssl.{store}.location") is None:
            # The type of a file that there is not; certificates in the settings themselves are PEM always.
            properties.pop(f"ssl.{store}.type")
    versions = settings.value("ssl.enabled.protocols")
    properties["ssl.enabled.protocols"] = ",".join(versions) if isinstance(versions, tuple) else str(versions)
    try:
        return tls_settings(properties)
    except ConfigError as error:
        raise ConfigError(f"listener {settings.name}: {error}") from error


def _check_store(settings: ListenerSettings, store: str) -> None:
    location, kind = settings.value(f"ssl.{store}.location"), str(settings.value(f"ssl.{store}.type"))
    password = f"ssl.{store}.password"
    if location and kind.upper() == "PEM" and settings.value(password) is not None:
        raise ConfigError(
            f"{settings.place_of(password)}: PEM files have no password, only a key may: ssl.key.password"
        )
    if not location or kind.upper() == "PEM":
        return
    make = (
        "" if kind.upper() == "PKCS12" else f"keytool -importkeystore -srckeystore {location} -destkeystore store.p12"
    )
    convert = "openssl pkcs12 -in store.p12 -out store.pem" if make else f"openssl pkcs12 -in {location} -out store.pem"
    steps = f"{make} -deststoretype PKCS12 && {convert}" if make else convert
    raise ConfigError(f"{settings.place_of(f'ssl.{store}.type')}: {kind} is not supported, use PEM: {steps}")
