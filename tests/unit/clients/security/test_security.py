"""Security that is ready for connections."""

from __future__ import annotations

import random
import ssl

import pytest

from crabka.clients.security.sasl import SaslCredentials
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.clients.security.settings import SecuritySettings
from crabka.errors import ConfigError
from crabka.security.secret import Secret

PROPERTIES = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "s3cret",
}


def test_properties_become_a_context_and_a_user() -> None:
    security = ClientSecurity.from_properties(PROPERTIES)
    assert isinstance(security.tls, ssl.SSLContext)
    assert security.tls.verify_mode is ssl.CERT_REQUIRED
    assert security.tls.check_hostname
    assert security.sasl is not None
    assert security.sasl.credentials.username == "alice"
    assert "s3cret" not in repr(security)


def test_without_properties_connections_are_unprotected() -> None:
    assert ClientSecurity.from_properties({}) == UNPROTECTED


def test_files_are_read_at_once() -> None:
    with pytest.raises(ConfigError, match=r"ssl.ca.location"):
        ClientSecurity.from_properties({"security.protocol": "SSL", "ssl.ca.location": "/does/not/exist"})


def test_generator_of_nonces_can_be_given() -> None:
    settings = SecuritySettings(sasl=SaslCredentials("PLAIN", "alice", Secret("s3cret")))
    security = ClientSecurity.load(settings, random.Random(1))
    assert security.tls is None
    assert security.sasl is not None
