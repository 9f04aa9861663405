"""The protection of a client's connections, ready for use: with files read and credentials loaded."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crabka.clients.security.sasl import SaslClient
from crabka.clients.security.settings import SecuritySettings
from crabka.clients.security.tls import tls_context
from crabka.runtime.entropy import secure_random

if TYPE_CHECKING:
    import random


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """TLS and SASL for each connection; make one with `from_properties` or `load` and share it."""

    tls: ssl.SSLContext | None = None
    sasl: SaslClient | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ClientSecurity:
        """Load Kafka's client properties; see `SecuritySettings`. Reads files. Raises ConfigError."""
        return cls.load(SecuritySettings.from_properties(properties))

    @classmethod
    def load(cls, settings: SecuritySettings, rng: random.Random | None = None) -> ClientSecurity:
        """Read the files that settings name. Raises ConfigError."""
        return cls(
            None if settings.tls is None else tls_context(settings.tls),
            None if settings.sasl is None else SaslClient(settings.sasl, rng or secure_random()),
        )


UNPROTECTED: Final = ClientSecurity()
"""Kafka's PLAINTEXT."""
