"""Client properties of TLS and SASL: what they mean, and mistakes in them."""

from __future__ import annotations

import ssl

import pytest

from crabka.clients.security.sasl import SaslCredentials
from crabka.clients.security.settings import PemFile, SecuritySettings, TlsSettings, is_idle
from crabka.errors import ConfigError
from crabka.security.secret import Secret

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USER = {"sasl.username": "alice", "sasl.password": "s3cret"}


def read(**properties: str) -> SecuritySettings:
    return SecuritySettings.from_properties({key.replace("_", "."): value for key, value in properties.items()})


def test_without_properties_nothing_is_protected() -> None:
    assert SecuritySettings.from_properties({}) == SecuritySettings()
    assert SecuritySettings().protocol == "PLAINTEXT"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "sasl_ssl"])
def test_protocol_decides_what_is_used(protocol: str) -> None:
    properties = {"security.protocol": protocol, "sasl.mechanism": "PLAIN", **USER}
    settings = SecuritySettings.from_properties(properties)
    assert settings.protocol == protocol.upper()


def test_properties_of_what_is_not_used_are_not_looked_at() -> None:
    assert read(security_protocol="PLAINTEXT", ssl_what="x", sasl_what="y") == SecuritySettings()
    assert read(security_protocol="SSL", sasl_what="y").sasl is None
    properties = {"security.protocol": "SASL_PLAINTEXT", "ssl.what": "x", "sasl.mechanism": "PLAIN", **USER}
    assert SecuritySettings.from_properties(properties).tls is None


def test_properties_of_other_families_are_left_alone() -> None:
    assert read(security_protocol="SSL", client_id="c", bootstrap_servers="b:1").tls == TlsSettings()


def test_pem_files_by_the_names_of_librdkafka() -> None:
    settings = read(
        security_protocol="SSL",
        ssl_ca_location=" /ca.pem ",
        ssl_certificate_location="/own.pem",
        ssl_key_location="/own.key",
        ssl_key_password=" blanks count ",
    )
    assert settings.tls == TlsSettings(
        trusted_file=PemFile("ssl.ca.location", "/ca.pem"),
        certificate_file=PemFile("ssl.certificate.location", "/own.pem"),
        key_file=PemFile("ssl.key.location", "/own.key"),
        key_password=Secret(" blanks count "),
    )


def test_pem_stores_by_the_names_of_kafka() -> None:
    settings = read(
        security_protocol="SSL",
        ssl_truststore_location="/trust.pem",
        ssl_truststore_type="PEM",
        ssl_keystore_location="/own.pem",
        ssl_keystore_type="pem",
    )
    own = PemFile("ssl.keystore.location", "/own.pem")
    trusted = PemFile("ssl.truststore.location", "/trust.pem")
    assert settings.tls == TlsSettings(trusted_file=trusted, certificate_file=own, key_file=own)


def test_certificates_may_stand_in_the_property() -> None:
    settings = read(security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_certificates="-----BEGIN")
    assert settings.tls == TlsSettings(trusted_text="-----BEGIN")


def test_certificates_and_key_of_the_client_may_stand_in_properties() -> None:
    settings = read(
        security_protocol="SSL",
        ssl_keystore_type="PEM",
        ssl_keystore_certificate_chain="-----BEGIN C",
        ssl_keystore_key="-----BEGIN K",
        ssl_key_password="s3cret",
    )
    assert settings.tls == TlsSettings(
        certificate_text="-----BEGIN C", key_text=Secret("-----BEGIN K"), key_password=Secret("s3cret")
    )
    assert "BEGIN K" not in repr(settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.protocol", "TLSv1.3"),
        ("ssl.provider", "SunJSSE"),
        ("ssl.keymanager.algorithm", "SunX509"),
        ("ssl.trustmanager.algorithm", "PKIX"),
        ("ssl.secure.random.implementation", "SHA1PRNG"),
        ("ssl.client.auth", "required"),
        ("sasl.login.refresh.window.factor", "0.8"),
        ("sasl.login.retry.backoff.ms", "100"),
        ("sasl.login.connect.timeout.ms", "1"),
        ("sasl.login.read.timeout.ms", "1"),
        ("sasl.kerberos.service.name", "kafka"),
        ("sasl.oauthbearer.scope.claim.name", "scope"),
    ],
)
def test_what_protects_nothing_is_accepted_without_effect(key: str, value: str) -> None:
    plain = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **USER}
    assert SecuritySettings.from_properties({**plain, key: value}) == SecuritySettings.from_properties(plain)
    assert is_idle(key)


def test_what_protects_is_not_idle() -> None:
    assert not any(
        is_idle(key) for key in ("ssl.cipher.suites", "ssl.ca.location", "sasl.mechanism", "sasl.login.class")
    )


def test_old_versions_of_tls_are_left_out_of_a_list() -> None:
    tls = read(security_protocol="SSL", ssl_enabled_protocols="TLSv1.2,TLSv1.1,TLSv1,SSLv3").tls
    assert tls is not None
    assert (tls.min_version, tls.max_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)


def test_host_names_are_checked_unless_the_algorithm_is_empty() -> None:
    key = "ssl.endpoint.identification.algorithm"
    for value, checks in [("https", True), ("HTTPS", True), ("", False), (" ", False)]:
        settings = SecuritySettings.from_properties({"security.protocol": "SSL", key: value})
        assert settings.tls is not None
        assert settings.tls.checks_host_name is checks


def test_versions_of_tls_can_be_chosen() -> None:
    for text, expected in [
        ("TLSv1.2", (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)),
        ("TLSv1.3", (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)),
        ("TLSv1.3, TLSv1.2", (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)),
    ]:
        tls = read(security_protocol="SSL", ssl_enabled_protocols=text).tls
        assert tls is not None
        assert (tls.min_version, tls.max_version) == expected


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
def test_user_and_password_by_the_names_of_librdkafka(mechanism: str, key: str) -> None:
    settings = SecuritySettings.from_properties({"security.protocol": "SASL_PLAINTEXT", key: mechanism, **USER})
    assert settings.sasl == SaslCredentials(mechanism, "alice", Secret("s3cret"))


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN_MODULE), ("SCRAM-SHA-256", SCRAM_MODULE), ("SCRAM-SHA-512", SCRAM_MODULE)]
)
def test_user_and_password_in_a_jaas_entry(mechanism: str, module: str) -> None:
    settings = SecuritySettings.from_properties(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="alice" password="s3cret";',
        }
    )
    assert settings.sasl == SaslCredentials(mechanism, "alice", Secret("s3cret"))


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: TLS is not one of"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites: this client does not support"),
        ({"ssl.keystore.key": "s3cret"}, "ssl.keystore.key: needs ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": "c"}, "ssl.keystore.certificate.chain: needs ssl.keystore.key"),
        (
            {"ssl.keystore.certificate.chain": "c", "ssl.keystore.key": "s3cret", "ssl.keystore.type": "PKCS12"},
            "ssl.keystore.type: PKCS12",
        ),
        (
            {
                "ssl.keystore.certificate.chain": "c",
                "ssl.keystore.key": "s3cret",
                "ssl.keystore.location": "/k",
                "ssl.keystore.type": "PEM",
            },
            "ssl.keystore.certificate.chain and ssl.keystore.location exclude each other",
        ),
        ({"ssl.engine.factory.class": "x"}, "ssl.engine.factory.class: this client does not support"),
        ({"ssl.provider": "BCFIPS"}, "ssl.provider: BCFIPS is not supported, only SunJSSE"),
        ({"ssl.trustmanager.algorithm": "Own"}, "ssl.trustmanager.algorithm: Own is not supported"),
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv9"}, "ssl.enabled.protocols: 'TLSv9'"),
        ({"ssl.keystore.password": "s3cret"}, "ssl.keystore.password: PEM files have no password"),
        ({"ssl.truststore.password": "s3cret"}, "ssl.truststore.password: PEM files have no password"),
        ({"ssl.truststore.location": "/t.jks"}, r"ssl.truststore.type: JKS .* use ssl.ca.location"),
        ({"ssl.truststore.location": "/t", "ssl.truststore.type": "PKCS12"}, "ssl.truststore.type: PKCS12"),
        ({"ssl.keystore.location": "/k.jks"}, r"ssl.keystore.type: JKS .* use ssl.certificate.location"),
        ({"ssl.truststore.type": "JKS"}, "ssl.truststore.type: JKS"),
        ({"ssl.ca.location": "/a", "ssl.truststore.location": "/b"}, "exclude each other"),
        ({"ssl.certificate.location": "/c"}, "ssl.certificate.location: needs ssl.key.location"),
        ({"ssl.key.location": "/k"}, "ssl.key.location: needs ssl.certificate.location"),
        ({"ssl.keystore.location": "/k", "ssl.keystore.type": "PEM", "ssl.key.location": "/k"}, "exclude each other"),
        ({"ssl.endpoint.identification.algorithm": "none"}, "ssl.endpoint.identification.algorithm: none"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: 'TLSv1.1'"),
        ({"ssl.enabled.protocols": ""}, "ssl.enabled.protocols: ''"),
    ],
)
def test_mistakes_about_tls_name_the_property(properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        SecuritySettings.from_properties({"security.protocol": "SSL", **properties})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        (
            {},
            "sasl.mechanism: not set, and Kafka's default GSSAPI is not supported; set it to one of PLAIN, ",
        ),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: GSSAPI is not supported; set it to one of PLAIN"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism: OAUTHBEARER is not supported"),
        ({"sasl.mechanisms": "plain"}, "sasl.mechanisms: plain is not supported"),
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}, "exclude each other"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username: not set, nor sasl.jaas.config"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "alice"}, "sasl.password: not set"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a\0b", "sasl.password": "s3cret"}, "sasl.username .* NUL"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "s3cret\0"}, "sasl.password .* NUL"),
        ({"sasl.mechanism": "PLAIN", "sasl.login.class": "k"}, "sasl.login.class: this client"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.client.callback.handler.class": "k"},
            "sasl.client.callback.handler.class: this client",
        ),
        (
            {"sasl.mechanism": "PLAIN", **USER, "sasl.jaas.config": "M required;"},
            "sasl.jaas.config and sasl.username exclude",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{SCRAM_MODULE} required password="s3cret";'},
            f"PLAIN needs the login module {PLAIN_MODULE}",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f'{PLAIN_MODULE} required password="s3cret";'},
            f"SCRAM-SHA-256 needs the login module {SCRAM_MODULE}",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN_MODULE} required password="s3cret";'},
            "the option username is missing",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN_MODULE} required username="a";'},
            "the option password is missing",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f'{SCRAM_MODULE} required tokenauth="s3cret";'},
            "only username and password are supported",
        ),
    ],
)
def test_mistakes_about_sasl_name_the_property(properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        SecuritySettings.from_properties({"security.protocol": "SASL_SSL", **properties})
    assert "s3cret" not in str(caught.value)


def test_no_secret_shows_in_the_settings() -> None:
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **USER}
    settings = SecuritySettings.from_properties({**properties, "ssl.key.password": "s3cret"})
    assert "alice" in repr(settings)
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in str(settings)
