"""Stores of a listener as TLS settings; what a server makes of them is in test_server_tls."""

from __future__ import annotations

import pytest

from crabka.clients.security.store_settings import listener_stores
from crabka.config.listener_settings import ListenerSettings, listener_settings
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from tests.unit.config.nodes import MINIMAL

PREFIX = "listener.name.plaintext"


def settings(**given: str) -> ListenerSettings:
    own = {f"{PREFIX}.{key.replace('_', '.')}": text for key, text in given.items()}
    protocols = {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"}
    return listener_settings(ServerConfig.from_properties({**MINIMAL, **protocols, **own})[0], "PLAINTEXT")


def test_settings_of_the_listener_count() -> None:
    stores = listener_stores(
        settings(
            ssl_keystore_location="/own.pem",
            ssl_keystore_type="PEM",
            ssl_key_password="canary",
            ssl_truststore_certificates="-----BEGIN CERTIFICATE-----",
            ssl_endpoint_identification_algorithm="",
        )
    )
    assert stores.certificate_file is not None
    assert (stores.certificate_file.path, stores.trusted_file) == ("/own.pem", None)
    assert stores.trusted_text == "-----BEGIN CERTIFICATE-----"
    assert not stores.checks_host_name
    assert "canary" not in repr(stores)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"ssl_keystore_location": "/k.jks"},
            "keytool -importkeystore -srckeystore /k.jks -destkeystore store.p12 -deststoretype PKCS12 && openssl",
        ),
        ({"ssl_truststore_location": "/t.p12", "ssl_truststore_type": "PKCS12"}, "openssl pkcs12 -in /t.p12"),
        (
            {"ssl_keystore_location": "/k.pem", "ssl_keystore_type": "PEM", "ssl_keystore_password": "canary"},
            f"{PREFIX}.ssl.keystore.password: PEM files have no password",
        ),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, f"{PREFIX}.ssl.cipher.suites: not supported"),
        ({"ssl_keystore_key": "canary"}, "listener PLAINTEXT: ssl.keystore.key: needs ssl.keystore.certificate.chain"),
    ],
)
def test_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        listener_stores(settings(**given))
    assert message in str(caught.value)
    assert "canary" not in str(caught.value)
