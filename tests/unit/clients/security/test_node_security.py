"""How a node protects the connections that it opens."""

from __future__ import annotations

import pytest

from crabka.clients.security.node_security import NodeSecurity, broker_security
from crabka.clients.security.security import UNPROTECTED
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.security.sasl.listener_rules import PLAIN_MODULE, SCRAM_MODULE
from crabka.security.secret import Secret
from tests.unit.config.nodes import MINIMAL

SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,OPEN:PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
        f'{SCRAM_MODULE} required username="broker" password="canary";'
    ),
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="node" password="canary" user_node="canary";'
    ),
}


def config(**changes: str) -> ServerConfig:
    changed = {key.replace("__", "-").replace("_", "."): text for key, text in changes.items()}
    return ServerConfig.from_properties({**MINIMAL, **SECURED, **changed})[0]


def test_brokers_and_controllers_are_reached_as_their_listeners_say() -> None:
    security = NodeSecurity.load(config())
    assert security.brokers.sasl is not None
    assert security.controllers.sasl is not None
    brokers, controllers = security.brokers.sasl.credentials, security.controllers.sasl.credentials
    assert (brokers.mechanism, brokers.username, brokers.password) == ("SCRAM-SHA-256", "broker", Secret("canary"))
    assert (controllers.mechanism, controllers.username) == ("PLAIN", "node")
    assert "canary" not in repr(security)


def test_listeners_without_protection_need_no_log_in() -> None:
    assert NodeSecurity.load(ServerConfig.from_properties(MINIMAL)[0]) == NodeSecurity()
    assert broker_security(config(), "OPEN") == UNPROTECTED


def test_ignored_security_is_ignored_here_as_well() -> None:
    ignoring, _ = ServerConfig.from_properties({**MINIMAL, **SECURED}, insecure_ignore_security=True)
    assert NodeSecurity.load(ignoring) == NodeSecurity()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sasl_mechanism_controller_protocol": "GSSAPI"},
            "sasl.mechanism.controller.protocol: GSSAPI is not supported at listener CONTROLLER",
        ),
        (
            {"sasl_mechanism_inter_broker_protocol": "PLAIN"},
            "listener.name.plaintext.plain.sasl.jaas.config: not set, though other nodes are reached",
        ),
        (
            {"listener_name_controller_plain_sasl_jaas_config": f'{PLAIN_MODULE} required user_node="canary";'},
            "listener.name.controller.plain.sasl.jaas.config: the option username is missing",
        ),
    ],
)
def test_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NodeSecurity.load(config(**changes))
    assert message in str(caught.value)
    assert "canary" not in str(caught.value)
