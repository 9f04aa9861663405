"""TLS of a listener: what its settings have to name, and what a certificate makes of a client."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from crabka.config.listener_settings import listener_settings
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError, WireError
from crabka.security.principal import ANONYMOUS, Principal
from crabka.serving.transport.server_tls import ServerTls
from crabka.vfs import OsFileSystem
from tests.support.wire.certificates import Authority
from tests.unit.config.nodes import MINIMAL


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def keystore(authority: Authority) -> Path:
    return authority.keystore(authority.issue("broker"))


def tls_of(keystore: Path, protocol: str = "SSL", **more: str) -> ServerTls:
    properties = {
        **MINIMAL,
        "listeners": f"{MINIMAL['listeners']},SECURE://:9999",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:{protocol}",
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.type": "PEM",
        **{key.replace("_", "."): text for key, text in more.items()},
    }
    config = ServerConfig.from_properties({key: text for key, text in properties.items() if text})[0]
    return ServerTls(listener_settings(config, "SECURE"), OsFileSystem())


@pytest.mark.parametrize(
    ("protocol", "more", "mode"),
    [
        ("SSL", {}, ssl.CERT_NONE),
        ("SSL", {"ssl_client_auth": "requested"}, ssl.CERT_OPTIONAL),
        ("SSL", {"ssl_client_auth": "required"}, ssl.CERT_REQUIRED),
        ("SSL", {"ssl_client_auth": "required", "listener_name_secure_ssl_client_auth": "none"}, ssl.CERT_NONE),
        # As in Kafka, only the listener's own setting counts where clients log in.
        ("SASL_SSL", {"ssl_client_auth": "required"}, ssl.CERT_NONE),
        ("SASL_SSL", {"listener_name_secure_ssl_client_auth": "required"}, ssl.CERT_REQUIRED),
    ],
)
def test_whether_clients_need_certificates(
    keystore: Path, protocol: str, more: dict[str, str], mode: ssl.VerifyMode
) -> None:
    assert tls_of(keystore, protocol, **more).context.verify_mode is mode


def test_versions(keystore: Path) -> None:
    context = tls_of(keystore, ssl_enabled_protocols="TLSv1.2").context
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)


def test_principal_of_a_certificate(authority: Authority, keystore: Path) -> None:
    certificate = ssl.PEM_cert_to_DER_cert(authority.issue("alice").certificate.read_text())
    assert tls_of(keystore).principal_of(certificate) == Principal("User", "CN=alice")
    assert tls_of(keystore).principal_of(None) == tls_of(keystore).principal_of(b"") == ANONYMOUS
    mapped = tls_of(keystore, ssl_principal_mapping_rules="RULE:^CN=(.*)$/$1/U")
    assert mapped.principal_of(certificate) == Principal("User", "ALICE")
    with pytest.raises(
        WireError, match=r"no rule of ssl.principal.mapping.rules applies to the certificate of CN=alice"
    ):
        tls_of(keystore, ssl_principal_mapping_rules="RULE:^CN=bob$/bob/").principal_of(certificate)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ssl_keystore_location": ""}, "listener SECURE needs a certificate"),
        ({"ssl_keystore_type": ""}, "ssl.keystore.type: JKS is not supported, use PEM: keytool -importkeystore"),
        ({"ssl_keystore_type": "PKCS12"}, "ssl.keystore.type: PKCS12 is not supported, use PEM: openssl pkcs12 -in"),
        ({"ssl_truststore_location": "t.jks"}, "ssl.truststore.type: JKS is not supported, use PEM: keytool"),
        ({"ssl_keystore_location": "/none"}, "cannot read /none"),
        ({"ssl_cipher_suites": "TLS_RSA_WITH_AES_128_CBC_SHA"}, "ssl.cipher.suites: not supported"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "ssl.enabled.protocols: 'TLSv1.1' is not one of"),
    ],
)
def test_refused(keystore: Path, more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tls_of(keystore, **more)
    assert message in str(caught.value)


def test_bad_file_keeps_the_old_certificate(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = authority.keystore(authority.issue("first")).read_bytes()
    path = tmp_path / "keystore.pem"
    path.write_bytes(good)
    tls = tls_of(path)
    first = tls.context
    tls.reload_if_changed()
    assert tls.context is first
    for text in (b"nonsense", b"more nonsense"):
        path.write_bytes(text)
        tls.reload_if_changed()
    assert tls.context is first
    assert [line for line in caplog.messages if "keeps its certificate" in line] == caplog.messages[:1]
    path.write_bytes(good)
    os.utime(path, (1, 1))
    tls.reload_if_changed()
    assert tls.context is not first
