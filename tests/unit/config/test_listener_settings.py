"""A listener's own settings win over those of the node."""

from __future__ import annotations

import pytest

from crabka.config.listener_settings import listener_key, listener_settings, plain_name
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from tests.unit.config.nodes import MINIMAL

_INTERNAL = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL,INTERNAL:SASL_SSL",
    "ssl.client.auth": "requested",
    "ssl.keystore.type": "PEM",
    "listener.name.internal.ssl.client.auth": "required",
    "listener.name.controller.ssl.keystore.type": "PKCS12",
}


def _config(**more: str) -> ServerConfig:
    properties = {**MINIMAL, **_INTERNAL, **more}
    return ServerConfig.from_properties(properties, insecure_ignore_security=True)[0]


def test_own_setting_wins_over_that_of_the_node() -> None:
    internal, controller = (listener_settings(_config(), name) for name in ("INTERNAL", "controller"))
    assert (internal.value("ssl.client.auth"), internal.value("ssl.keystore.type")) == ("required", "PEM")
    assert (controller.value("ssl.client.auth"), controller.value("ssl.keystore.type")) == ("requested", "PKCS12")
    assert internal.value("ssl.truststore.type") == "JKS"
    assert (internal.is_own("ssl.client.auth"), internal.is_own("ssl.keystore.type")) == (True, False)
    assert internal.place_of("ssl.client.auth") == "listener.name.internal.ssl.client.auth"
    assert internal.place_of("ssl.keystore.type") == "ssl.keystore.type"


def test_protocol_of_a_listener_says_what_protects_it() -> None:
    internal, controller, plain = (
        listener_settings(_config(), name) for name in ("INTERNAL", "CONTROLLER", "PLAINTEXT")
    )
    assert (internal.security_protocol, internal.uses_tls, internal.uses_sasl) == ("SASL_SSL", True, True)
    assert (controller.security_protocol, controller.uses_tls, controller.uses_sasl) == ("SSL", True, False)
    assert (plain.security_protocol, plain.uses_tls, plain.uses_sasl) == ("PLAINTEXT", False, False)


def test_setting_of_a_mechanism_wins_over_that_of_its_listener() -> None:
    key, values = "sasl.server.max.receive.size", {}
    for number, owner in enumerate(("", "listener.name.internal.", "listener.name.internal.scram-sha-512."), 1):
        values[f"{owner}{key}"] = str(number)
    internal = listener_settings(_config(**values), "INTERNAL")
    assert [internal.value(key, name) for name in ("SCRAM-SHA-512", "PLAIN", None)] == [3, 2, 2]
    assert listener_settings(_config(**values), "PLAINTEXT").value(key, "SCRAM-SHA-512") == 1


def test_dynamic_setting_of_a_listener_wins_over_static_ones() -> None:
    name = "listener.name.internal.ssl.client.auth"
    changed = _config().with_dynamic({}, {name: "none", "listener.name.internal.ssl.principal.mapping.rules": "x"})
    internal = listener_settings(changed, "INTERNAL")
    assert internal.value("ssl.client.auth") == "none"
    assert internal.value("ssl.principal.mapping.rules") == "DEFAULT", "it needs a restart"


def test_bad_value_is_named_as_it_was_written() -> None:
    name = "listener.name.internal.ssl.client.auth"
    with pytest.raises(ConfigError, match=f"Invalid value sometimes for configuration {name}: "):
        _config(**{name: "sometimes"})


def test_keys_of_listeners_are_known() -> None:
    assert plain_name("listener.name.a.ssl.key.password") == plain_name("ssl.key.password") == "ssl.key.password"
    key = listener_key("listener.name.a.ssl.key.password")
    assert key is not None
    assert key.sensitive
    assert listener_key("ssl.key.password") is None
