"""The settings of SASL listeners: what is required, what is refused, and that nothing shows a password."""

from __future__ import annotations

import pytest

from crabka.config.listener_settings import ListenerSettings, listener_settings
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.security.sasl.listener_rules import PLAIN_MODULE, SCRAM_MODULE, listener_rules
from crabka.security.secret import Secret
from tests.unit.config.nodes import MINIMAL

PLAIN_ENTRY = f'{PLAIN_MODULE} required username="admin" password="canary" user_admin="canary" user_bob="b, c";'


def settings(**given: str) -> ListenerSettings:
    own = {f"listener.name.clients.{key.replace('__', '-').replace('_', '.')}": text for key, text in given.items()}
    properties = {
        **MINIMAL,
        "listeners": f"{MINIMAL['listeners']},CLIENTS://:9999",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        **own,
    }
    return listener_settings(ServerConfig.from_properties(properties)[0], "CLIENTS")


def test_everything_of_a_listener() -> None:
    rules = listener_rules(
        settings(
            sasl_enabled_mechanisms="SCRAM-SHA-512,PLAIN",
            plain_sasl_jaas_config=PLAIN_ENTRY,
            connections_max_reauth_ms="5000",
            plain_connections_max_reauth_ms="7000",
            connection_failed_authentication_delay_ms="5",
            sasl_server_max_receive_size="1000",
        )
    )
    assert rules.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert rules.plain_users == {"admin": Secret("canary"), "bob": Secret("b, c")}
    assert rules.session_ms == {"SCRAM-SHA-512": 5000, "PLAIN": 7000}
    assert (rules.failure_delay_ms, rules.max_receive_bytes) == (5, 1000)
    assert "canary" not in repr(rules)


def test_defaults_are_those_of_kafka() -> None:
    rules = listener_rules(settings(sasl_enabled_mechanisms="SCRAM-SHA-256"))
    assert (rules.failure_delay_ms, rules.max_receive_bytes) == (100, 524_288)
    assert rules.session_ms == {"SCRAM-SHA-256": 0}


def test_absurd_session_has_a_bound() -> None:
    rules = listener_rules(settings(sasl_enabled_mechanisms="SCRAM-SHA-256", connections_max_reauth_ms=str(2**63 - 1)))
    assert rules.session_ms == {"SCRAM-SHA-256": 2**52}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "sasl.enabled.mechanisms: GSSAPI of listener CLIENTS is not supported"),
        ({"sasl_enabled_mechanisms": "PLAIN,GSSAPI"}, "listener.name.clients.sasl.enabled.mechanisms: GSSAPI of"),
        ({"sasl_enabled_mechanisms": "OAUTHBEARER"}, "OAUTHBEARER of listener CLIENTS is not supported"),
        ({"sasl_enabled_mechanisms": "plain"}, "plain of listener CLIENTS is not supported"),
        (
            {"sasl_enabled_mechanisms": "PLAIN"},
            "listener.name.clients.plain.sasl.jaas.config: not set, though PLAIN is enabled",
        ),
        (
            {"sasl_enabled_mechanisms": "PLAIN", "sasl_jaas_config": PLAIN_ENTRY},
            "listener.name.clients.sasl.jaas.config: its key must name the listener and the mechanism",
        ),
        (
            {"sasl_enabled_mechanisms": "PLAIN", "plain_sasl_jaas_config": f"{SCRAM_MODULE} required;"},
            f"listener.name.clients.plain.sasl.jaas.config: PLAIN needs the login module {PLAIN_MODULE}",
        ),
        (
            {"sasl_enabled_mechanisms": "SCRAM-SHA-256", "scram__sha__256_sasl_jaas_config": PLAIN_ENTRY},
            "listener.name.clients.scram-sha-256.sasl.jaas.config: SCRAM-SHA-256 needs the login module",
        ),
        (
            {"sasl_enabled_mechanisms": "PLAIN", "plain_sasl_jaas_config": PLAIN_ENTRY[:-1]},
            "listener.name.clients.plain.sasl.jaas.config: the entry does not end with a semicolon",
        ),
    ],
)
def test_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        listener_rules(settings(**given))
    assert message in str(caught.value)
    assert "canary" not in str(caught.value)


def test_empty_list_of_mechanisms() -> None:
    with pytest.raises(ConfigError, match="listener CLIENTS needs a mechanism"):
        listener_rules(settings(sasl_enabled_mechanisms=""))
