"""TLS and SASL in Kafka's client properties, parsed and checked; opens no file and no connection.

Names are those of Kafka's own clients, and of librdkafka where Kafka has none for PEM files and plain credentials.
Properties of the families `ssl.` and `sasl.` without effect here are refused, so that no user relies on a
protection that does not exist; only those that do not weaken the protection are accepted without effect. All other
families are ignored here.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from crabka.clients.security.sasl import MECHANISMS, PLAIN, SaslCredentials
from crabka.errors import ConfigError
from crabka.security.jaas import KEY as JAAS_KEY
from crabka.security.jaas import parse_jaas
from crabka.security.secret import Secret

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PROTOCOL_KEY: Final = "security.protocol"
_IDENTIFICATION_KEY: Final = "ssl.endpoint.identification.algorithm"
_VERSIONS_KEY: Final = "ssl.enabled.protocols"
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# Versions that are no longer safe; they are never offered.
_OLD_VERSIONS: Final = frozenset({"SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"})
CHAIN_KEY: Final = "ssl.keystore.certificate.chain"
KEY_KEY: Final = "ssl.keystore.key"
_MECHANISM_KEYS: Final = ("sasl.mechanism", "sasl.mechanisms")
_TLS_KEYS: Final = frozenset(
    {
        *("ssl.ca.location", "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.certificates"),
        *("ssl.certificate.location", "ssl.key.location", "ssl.keystore.location", "ssl.keystore.type"),
        *("ssl.key.password", _IDENTIFICATION_KEY, _VERSIONS_KEY, CHAIN_KEY, KEY_KEY),
    }
)
_SASL_KEYS: Final = frozenset({*_MECHANISM_KEYS, "sasl.username", "sasl.password", JAAS_KEY})
# Choices between equal Java providers, properties of brokers, and those of refused mechanisms.
_IDLE_KEYS: Final = frozenset(
    {
        *("ssl.protocol", "ssl.keymanager.algorithm", "ssl.secure.random.implementation", "ssl.client.auth"),
        *("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"),
    }
)
_IDLE_FAMILIES: Final = ("sasl.login.refresh.", "sasl.login.retry.", "sasl.kerberos.", "sasl.oauthbearer.")
# Other values may be stricter than the checks here.
_IDLE_VALUES: Final = {"ssl.provider": ("SunJSSE",), "ssl.trustmanager.algorithm": ("PKIX", "SunX509")}
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


class PemFile(NamedTuple):
    """A file and the property that names it, or that holds its content."""

    key: str
    path: str
    in_property: bool = False

    @property
    def place(self) -> str:
        """The place of the content, for messages."""
        return self.key if self.in_property else self.path


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Trusted certificates, own certificate, and strictness. The default truststore is that of the machine."""

    trusted_file: PemFile | None = None
    trusted_text: str | None = None
    certificate_file: PemFile | None = None
    key_file: PemFile | None = None
    certificate_text: str | None = None
    key_text: Secret | None = None
    key_password: Secret | None = None
    checks_host_name: bool = True
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The protection of connections: TLS, SASL, both or none."""

    tls: TlsSettings | None = None
    sasl: SaslCredentials | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name for the combination."""
        channel = "PLAINTEXT" if self.tls is None else "SSL"
        return channel if self.sasl is None else f"SASL_{channel}"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> SecuritySettings:
        """Read the properties of a client. Raises ConfigError, which names the property and shows no secret."""
        protocol = _text(properties, _PROTOCOL_KEY) or "PLAINTEXT"
        if protocol.upper() not in PROTOCOLS:
            raise ConfigError(f"{_PROTOCOL_KEY}: {protocol} is not one of {', '.join(PROTOCOLS)}")
        # As in Kafka, properties of unused features are not checked.
        uses_tls, uses_sasl = protocol.upper().endswith("SSL"), protocol.upper().startswith("SASL")
        return cls(tls_settings(properties) if uses_tls else None, _sasl(properties) if uses_sasl else None)


def is_idle(key: str) -> bool:
    """Return whether a property of TLS or SASL, if it is accepted, has no effect."""
    return key in _IDLE_KEYS or key in _IDLE_VALUES or key.startswith(_IDLE_FAMILIES)


def _text(properties: Mapping[str, str], key: str) -> str | None:
    """Return a value without blanks around it, None for one that is absent or empty."""
    return properties.get(key, "").strip() or None


def _secret(properties: Mapping[str, str], key: str) -> Secret | None:
    value = properties.get(key)
    return Secret(value) if value else None


def _refuse_unknown(properties: Mapping[str, str], family: str, known: frozenset[str]) -> None:
    for key, values in _IDLE_VALUES.items():
        if key.startswith(family) and (_text(properties, key) or values[0]) not in values:
            raise ConfigError(f"{key}: {properties[key].strip()} is not supported, only {' or '.join(values)}")
    unknown = sorted(key for key in properties if key.startswith(family) and key not in known and not is_idle(key))
    if unknown:
        raise ConfigError(
            f"{unknown[0]}: this client does not support it; of {family}* it supports {', '.join(sorted(known))}"
        )


def _only_one(properties: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    """Return which of the properties is set. Raises ConfigError for more than one."""
    given = [key for key in keys if _text(properties, key)]
    if len(given) > 1:
        raise ConfigError(f"{given[0]} and {given[1]} exclude each other")
    return given[0] if given else None


def tls_settings(properties: Mapping[str, str]) -> TlsSettings:
    """Read the properties of TLS. Raises ConfigError."""
    for key in ("ssl.keystore.password", "ssl.truststore.password"):
        if key in properties:
            raise ConfigError(f"{key}: PEM files have no password, only a private key may: ssl.key.password")
    _refuse_unknown(properties, "ssl.", _TLS_KEYS)
    trust = _only_one(properties, ("ssl.ca.location", "ssl.truststore.location", "ssl.truststore.certificates"))
    _check_type(properties, "truststore", "ssl.ca.location")
    _check_type(properties, "keystore", "ssl.certificate.location and ssl.key.location")
    certificate_file, key_file = _identity_files(properties)
    certificate_text, key_text = _identity_texts(properties)
    if certificate_text is not None and certificate_file is not None:
        raise ConfigError(f"{CHAIN_KEY} and {certificate_file.key} exclude each other")
    minimum, maximum = _versions(properties)
    in_text = trust == "ssl.truststore.certificates"
    return TlsSettings(
        trusted_file=PemFile(trust, properties[trust].strip()) if trust and not in_text else None,
        trusted_text=properties[trust] if trust and in_text else None,
        certificate_file=certificate_file,
        key_file=key_file,
        certificate_text=certificate_text,
        key_text=key_text,
        key_password=_secret(properties, "ssl.key.password"),
        checks_host_name=_checks_host_name(properties),
        min_version=minimum,
        max_version=maximum,
    )


def _check_type(properties: Mapping[str, str], store: str, instead: str) -> None:
    kind = _text(properties, f"ssl.{store}.type") or "JKS"
    if kind.upper() != "PEM" and (_text(properties, f"ssl.{store}.location") or f"ssl.{store}.type" in properties):
        hint = f"set it to PEM, or use {instead}"
        raise ConfigError(f"ssl.{store}.type: {kind} (Kafka's default is JKS) is not supported; {hint}")


def _identity_texts(properties: Mapping[str, str]) -> tuple[str | None, Secret | None]:
    """Return the client's certificates and their key if the properties contain them."""
    chain, key = _text(properties, CHAIN_KEY), _text(properties, KEY_KEY)
    if chain is not None and key is None:
        raise ConfigError(f"{CHAIN_KEY}: needs {KEY_KEY}")
    if key is not None and chain is None:
        raise ConfigError(f"{KEY_KEY}: needs {CHAIN_KEY}")
    return chain, None if key is None else Secret(key)


def _identity_files(properties: Mapping[str, str]) -> tuple[PemFile | None, PemFile | None]:
    """Return where the client's certificates and their key are."""
    given = _only_one(properties, ("ssl.keystore.location", "ssl.certificate.location"))
    key = _text(properties, "ssl.key.location")
    if given is None:
        if key is not None:
            raise ConfigError("ssl.key.location: needs ssl.certificate.location")
        return None, None
    certificate = PemFile(given, properties[given].strip())
    if given == "ssl.keystore.location":
        if key is not None:
            raise ConfigError("ssl.keystore.location and ssl.key.location exclude each other")
        return certificate, certificate
    if key is None:
        raise ConfigError("ssl.certificate.location: needs ssl.key.location")
    return certificate, PemFile("ssl.key.location", key)


def _checks_host_name(properties: Mapping[str, str]) -> bool:
    algorithm = properties.get(_IDENTIFICATION_KEY, "https").strip()
    if algorithm.lower() not in ("https", ""):
        raise ConfigError(f"{_IDENTIFICATION_KEY}: {algorithm} is neither https nor empty")
    return bool(algorithm)


def _versions(properties: Mapping[str, str]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    names = [name.strip() for name in properties.get(_VERSIONS_KEY, "TLSv1.2,TLSv1.3").split(",")]
    versions = [_VERSIONS[name] for name in names if name in _VERSIONS]
    # A list of old versions alone cannot be satisfied.
    refused = [name for name in names if name not in _VERSIONS and not (versions and name in _OLD_VERSIONS)]
    if refused:
        raise ConfigError(f"{_VERSIONS_KEY}: {refused[0]!r} is not one of {', '.join(_VERSIONS)}")
    return min(versions), max(versions)


def _sasl(properties: Mapping[str, str]) -> SaslCredentials:
    _refuse_unknown(properties, "sasl.", _SASL_KEYS)
    key = _only_one(properties, _MECHANISM_KEYS)
    if key is None:
        raise ConfigError(f"{_MECHANISM_KEYS[0]}: not set, and Kafka's default GSSAPI is not supported; {_choice()}")
    mechanism = properties[key].strip()
    if mechanism not in MECHANISMS:
        raise ConfigError(f"{key}: {mechanism} is not supported; {_choice()}")
    username, password = _credentials(properties, mechanism)
    if "\0" in username or "\0" in password.reveal():
        raise ConfigError("sasl.username and sasl.password must not hold the character NUL")
    return SaslCredentials(mechanism, username, password)


def _choice() -> str:
    return f"set it to one of {', '.join(MECHANISMS)}"


def _credentials(properties: Mapping[str, str], mechanism: str) -> tuple[str, Secret]:
    given = [key for key in ("sasl.username", "sasl.password") if properties.get(key)]
    if properties.get(JAAS_KEY):
        if given:
            raise ConfigError(f"{JAAS_KEY} and {given[0]} exclude each other")
        return _jaas_credentials(properties[JAAS_KEY], mechanism)
    for key in ("sasl.username", "sasl.password"):
        if key not in given:
            raise ConfigError(f"{key}: not set, nor {JAAS_KEY}")
    return properties["sasl.username"], Secret(properties["sasl.password"])


def _jaas_credentials(text: str, mechanism: str) -> tuple[str, Secret]:
    entry = parse_jaas(text)
    module = _PLAIN_MODULE if mechanism == PLAIN else _SCRAM_MODULE
    if entry.module != module:
        raise ConfigError(f"{JAAS_KEY}: {mechanism} needs the login module {module}")
    unknown = [name for name in entry.options if name not in ("username", "password")]
    if unknown:
        raise ConfigError(f"{JAAS_KEY}: of the options of {module} only username and password are supported")
    for name in ("username", "password"):
        if not entry.options.get(name):
            raise ConfigError(f"{JAAS_KEY}: the option {name} is missing")
    return entry.options["username"], Secret(entry.options["password"])
