from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.spark.options.source_options import check_client_properties, parse_isolation

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush";'


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"]
)
def test_what_sparks_source_refuses_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"kafka.{name} is not supported"):
        check_client_properties({name: "x"})


def test_isolation_has_two_names() -> None:
    assert not parse_isolation({}, {})
    assert parse_isolation({"isolation.level": "READ_COMMITTED"}, {})
    assert parse_isolation({}, {"isolation.level": "read_committed"})
    assert not parse_isolation({"isolation.level": "read_uncommitted"}, {"isolation.level": "read_uncommitted"})


def test_two_isolations_that_differ_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.isolation\.level and isolation\.level differ"):
        parse_isolation({"isolation.level": "read_committed"}, {"isolation.level": "read_uncommitted"})
    with pytest.raises(ConfigError, match="read_uncommitted, read_committed, not serializable"):
        parse_isolation({"isolation.level": "serializable"}, {})


def test_security_is_checked_and_secrets_are_not_shown() -> None:
    check_client_properties(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
    )
    with pytest.raises(ConfigError, match=r"^kafka\.sasl\.mechanism") as caught:
        check_client_properties(
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.jaas.config": JAAS}
        )
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("kind", [{}, {"ssl.truststore.type": "JKS"}, {"ssl.truststore.type": "pkcs12"}])
def test_stores_of_java_are_refused_with_the_way_to_convert_them(kind: dict[str, str]) -> None:
    given = {"security.protocol": "ssl", "ssl.truststore.location": "/x.jks", "ssl.truststore.password": "p"}
    with pytest.raises(ConfigError, match="keytool -importkeystore") as caught:
        check_client_properties(given | kind)
    assert "openssl pkcs12" in str(caught.value)


def test_pem_stores_are_fine() -> None:
    check_client_properties(
        {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/x.pem"}
    )


def test_pem_may_stand_in_the_properties() -> None:
    texts = {"ssl.keystore.certificate.chain": "c", "ssl.keystore.key": "k", "ssl.truststore.certificates": "t"}
    check_client_properties({"security.protocol": "SSL", "ssl.keystore.type": "PEM", **texts})


def test_what_would_protect_less_if_it_were_ignored_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^kafka\.ssl\.cipher\.suites: this client does not support it"):
        check_client_properties({"security.protocol": "SSL", "ssl.cipher.suites": "x"})
