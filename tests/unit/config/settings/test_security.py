"""Which settings ask for protection that is not served."""

from __future__ import annotations

import pytest

from crabka.config.settings.security import SASL_KEYS, TLS_KEYS, asks_for_security


@pytest.mark.parametrize(
    "name",
    [
        "authorizer.class.name",
        "super.users",
        "sasl.jaas.config",
        "listener.name.internal.sasl.enabled.mechanisms",
        "listener.name.internal.scram-sha-256.sasl.jaas.config",
    ],
)
def test_security_settings_are_recognised(name: str) -> None:
    assert asks_for_security(name, "something")
    assert not asks_for_security(name, "")


@pytest.mark.parametrize(
    "name",
    [
        "num.partitions",
        "ssl.keystore.location",
        "listener.name.internal.ssl.keystore.location",
        "listener.name.internal.max.connections",
        "principal.builder.class",
    ],
)
def test_other_settings_ask_for_nothing(name: str) -> None:
    assert not asks_for_security(name, "something")


def test_no_security_key_claims_an_effect() -> None:
    assert {key.effect for key in (*TLS_KEYS, *SASL_KEYS)} == {"none"}
