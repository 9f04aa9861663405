"""A properties file becomes the settings of a node, or one clear line."""

from __future__ import annotations

import pytest

from crabka.config.java_classes import STANDARD_AUTHORIZER
from crabka.config.listeners import ListenerAddress
from crabka.config.properties import parse_properties
from crabka.config.server import ServerConfig, topic_defaults, with_aliases
from crabka.config.topic import TopicConfig
from crabka.errors import ConfigError
from tests.support.recorded.files import GOLDEN
from tests.unit.config.nodes import MINIMAL, server


def test_file_of_a_kafka_node_is_understood() -> None:
    properties = parse_properties((GOLDEN / "single" / "server.properties").read_text())
    config, warnings = ServerConfig.from_properties(properties, insecure_ignore_security=True)
    assert (config.node_id, config.process_roles) == (1, frozenset({"broker", "controller"}))
    assert config.log_dirs == ("d1", "d2")
    assert config.metadata_log_dir == "d1"
    assert config.broker_listeners == (ListenerAddress("PLAINTEXT", "127.0.0.1", 29092),)
    assert config.controller_listeners == (ListenerAddress("CONTROLLER", "127.0.0.1", 29093),)
    assert config.advertised_listeners == config.broker_listeners
    assert config.prefixed("rsm.config.") == {"dir": "tier"}
    assert topic_defaults(config) == TopicConfig()
    assert warnings == []
    assert config.authorizer_class_name == STANDARD_AUTHORIZER


def test_minimal_node_has_kafkas_defaults_and_no_warnings() -> None:
    config, warnings = ServerConfig.from_properties(MINIMAL)
    assert warnings == []
    assert (config.num_partitions, config.default_replication_factor, config.message_max_bytes) == (1, 1, 1048588)
    assert (config.is_broker, config.is_controller) == (True, True)
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.value("num.io.threads") == 8


@pytest.mark.parametrize("missing", ["process.roles", "node.id", "controller.listener.names"])
def test_missing_required_key_is_named(missing: str) -> None:
    properties = {name: text for name, text in MINIMAL.items() if name != missing}
    with pytest.raises(ConfigError, match=f'Missing required configuration "{missing}" which has no default value'):
        ServerConfig.from_properties(properties)


def test_bad_value_is_one_line() -> None:
    with pytest.raises(ConfigError) as caught:
        server(num_partitions="0")
    assert str(caught.value) == "Invalid value 0 for configuration num.partitions: Value must be at least 1"


def test_unknown_key_is_a_warning_with_the_nearest_known_key() -> None:
    _, warnings = ServerConfig.from_properties({**MINIMAL, "log.retention.hour": "1"})
    assert warnings == ["unknown setting log.retention.hour, did you mean log.retention.hours?"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("plaintxt.ssl.keystore.location", "plaintext.ssl.keystore.location"),
        ("CONTROLLER.ssl.keystore.location", "controller.ssl.keystore.location"),
        ("controller.ssl.clent.auth", "controller.ssl.client.auth"),
        ("controller.plain.sasl.jass.config", "controller.plain.sasl.jaas.config"),
    ],
)
def test_mistyped_setting_of_a_listener_is_a_warning(name: str, meant: str) -> None:
    _, warnings = ServerConfig.from_properties({**MINIMAL, f"listener.name.{name}": "required"})
    (warning,) = warnings
    assert f"listener.name.{name}" in warning
    assert warning.endswith(f", did you mean listener.name.{meant}?")


def test_setting_of_no_listener_is_a_warning() -> None:
    _, warnings = ServerConfig.from_properties({**MINIMAL, "listener.name.zzz.x": "1"})
    assert warnings == ["listener.name.zzz.x has no effect: no listener has this name"]


def test_known_settings_of_listeners_are_no_warnings() -> None:
    names = ("controller.ssl.client.auth", "controller.scram-sha-256.sasl.jaas.config", "plaintext.max.connections")
    _, warnings = ServerConfig.from_properties({**MINIMAL, **{f"listener.name.{name}": "none" for name in names[:1]}})
    assert warnings == []
    for name in names[1:]:
        _, warnings = ServerConfig.from_properties({**MINIMAL, f"listener.name.{name}": "1"})
        assert warnings == []


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.server.callback.handler.class": "com.example.Handler"},
        {"listener.name.plaintext.plain.sasl.login.class": "com.example.Login"},
    ],
)
def test_security_is_refused_unless_configured_to_ignore_it(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="which Crabka does not serve yet"):
        ServerConfig.from_properties({**MINIMAL, **properties})
    _, warnings = ServerConfig.from_properties({**MINIMAL, **properties}, insecure_ignore_security=True)
    assert len(warnings) == 1
    assert "is ignored" in warnings[0]


def test_listener_with_sasl_is_served_unless_security_is_ignored() -> None:
    properties = {
        **MINIMAL,
        "listeners": "SASL_PLAINTEXT://:9092,CONTROLLER://:9093",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    assert ServerConfig.from_properties(properties)[1] == []
    (warning,) = ServerConfig.from_properties(properties, insecure_ignore_security=True)[1]
    assert "listener SASL_PLAINTEXT asks for SASL_PLAINTEXT and is ignored" in warning


def test_settings_of_an_authorizer_need_one() -> None:
    for name in ("super.users", "allow.everyone.if.no.acl.found"):
        _, warnings = ServerConfig.from_properties({**MINIMAL, name: "x"})
        assert warnings == [f"{name} has no effect without authorizer.class.name"]
        _, warnings = ServerConfig.from_properties({**MINIMAL, name: "x", "authorizer.class.name": STANDARD_AUTHORIZER})
        assert warnings == []


def test_authorizers_are_kafkas_own_or_python_classes() -> None:
    with pytest.raises(
        ConfigError, match=r"cannot run the Java class org\.example\.Authorizer .*package\.module:Class"
    ):
        server(authorizer_class_name="org.example.Authorizer")
    assert server(authorizer_class_name="mine:Authorizer").authorizer_class_name == "mine:Authorizer"


def test_foreign_java_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot run the Java class"):
        server(create_topic_policy_class_name="com.example.Policy")


def test_names_are_brought_into_one_form() -> None:
    config = server(
        group_consumer_migration_policy="Upgrade",
        group_consumer_assignors="org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        controller_listener_names="controller",
    )
    assert config.group_consumer_migration_policy == "upgrade"
    assert config.group_consumer_assignors == ("range",)
    assert config.controller_listener_names == ("CONTROLLER",)


def test_broker_id_and_node_id_stand_for_each_other() -> None:
    assert with_aliases({"broker.id": "3"})["node.id"] == "3"
    assert with_aliases({"node.id": "3"})["broker.id"] == "3"
    assert with_aliases({"node.id": "3", "broker.id": "4"}) == {"node.id": "3", "broker.id": "4"}


def test_dynamic_settings_lie_over_static_ones() -> None:
    config = server(log_retention_ms="1", num_partitions="4")
    changed = config.with_dynamic({"log.retention.ms": "2", "log.segment.bytes": "2000000"}, {"log.retention.ms": "3"})
    assert (changed.log_retention_ms, changed.log_segment_bytes, changed.num_partitions) == (3, 2_000_000, 4)
    assert changed.static == config.static
    assert changed.with_dynamic({}) == config


def test_dynamic_settings_cannot_change_what_needs_a_restart() -> None:
    assert server().with_dynamic({"num.partitions": "9", "unknown.key": "1"}).num_partitions == 1


def test_topic_defaults_follow_the_node() -> None:
    config = server(
        log_retention_hours="2",
        log_roll_ms="7",
        log_flush_scheduler_interval_ms="9",
        log_cleanup_policy="compact",
        message_max_bytes="77",
    )
    defaults = topic_defaults(config)
    assert (defaults.retention_ms, defaults.segment_ms, defaults.flush_ms) == (7_200_000, 7, 9)
    assert (defaults.cleanup_policy, defaults.max_message_bytes) == (frozenset({"compact"}), 77)
