"""Which settings ask for protection that is not served."""

from __future__ import annotations

import pytest

from crabka.config.settings.security import SASL_KEYS, asks_for_security, is_fixed


@pytest.mark.parametrize(
    "name",
    [
        "sasl.login.class",
        "ssl.engine.factory.class",
        "listener.name.internal.sasl.server.callback.handler.class",
        "listener.name.internal.scram-sha-256.sasl.server.callback.handler.class",
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
        "sasl.enabled.mechanisms",
        "listener.name.internal.scram-sha-256.sasl.jaas.config",
    ],
)
def test_other_settings_ask_for_nothing(name: str) -> None:
    assert not asks_for_security(name, "something")


def test_settings_of_log_ins_have_an_effect() -> None:
    acting = {key.name for key in SASL_KEYS if key.effect == "full"}
    mechanisms = {"sasl.mechanism.controller.protocol", "sasl.mechanism.inter.broker.protocol"}
    assert acting == mechanisms | {"sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.server.max.receive.size"}


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("ssl.keystore.location", True),
        ("listener.name.internal.ssl.key.password", True),
        ("sasl.enabled.mechanisms", True),
        ("listener.name.internal.plain.sasl.jaas.config", True),
        ("listener.name.internal.sasl.jaas.config", True),
        ("log.retention.ms", False),
        ("listener.name.internal.max.connections", False),
    ],
)
def test_settings_that_cannot_change_while_a_node_runs(name: str, *, fixed: bool) -> None:
    assert is_fixed(name) == fixed
