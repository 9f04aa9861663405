"""Settings that follow from several keys."""

from __future__ import annotations

import pytest

from crabka.config.listeners import ListenerAddress
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


@pytest.mark.parametrize(
    ("changes", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log_retention_hours": "1"}, 3_600_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "2"}, 120_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "2", "log_retention_ms": "3"}, 3),
        ({"log_retention_ms": "-1"}, -1),
        ({"log_retention_hours": "-1"}, -1),
    ],
)
def test_finest_unit_of_retention_wins(changes: dict[str, str], retention_ms: int) -> None:
    assert server(**changes).log_retention_ms == retention_ms


def test_retention_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must be unlimited \(-1\) or"):
        server(log_retention_ms="0")


def test_roll_times_fall_back_to_hours() -> None:
    config = server(log_roll_hours="2", log_roll_jitter_hours="1")
    assert (config.log_roll_ms, config.log_roll_jitter_ms) == (7_200_000, 3_600_000)
    assert server(log_roll_hours="2", log_roll_ms="9").log_roll_ms == 9


def test_log_dirs_win_over_log_dir_and_metadata_goes_to_the_first() -> None:
    config = server(log_dirs="a, b", log_dir="c")
    assert (config.log_dirs, config.metadata_log_dir) == (("a", "b"), "a")
    assert server(metadata_log_dir="m").metadata_log_dir == "m"


def test_listeners_are_advertised_unless_others_are_given() -> None:
    config = server(advertised_listeners="PLAINTEXT://broker.example:19092,CONTROLLER://c.example:1")
    assert config.advertised_listeners == (ListenerAddress("PLAINTEXT", "broker.example", 19092),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"},
            r"^advertised.listeners: .* cannot connect to 0\.0\.0\.0",
        ),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:1"}, r"^listeners: .* to PLAINTEXT://HOST:9092 with"),
        ({"advertised_listeners": "SSL://h:1"}, "SSL is not among the listeners"),
        ({"inter_broker_listener_name": "CONTROLLER"}, "must be a listener name defined in advertised.listeners"),
        ({"inter_broker_listener_name": "NONE"}, "Listener with name NONE defined in inter.broker.listener.name not f"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set",
        ),
        (
            {"security_inter_broker_protocol": "SSL"},
            r"inter.broker.listener.name is not set, and no listener is called SSL, .* one of PLAINTEXT$",
        ),
        ({"inter_broker_listener_name": "SSL"}, r"based on currently configured listeners are PLAINTEXT$"),
        (
            {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT"},
            "Controller listener with name CONTROLLER defined in controller.listener.names not found",
        ),
        ({"listeners": "SSL://:1,CONTROLLER://:2"}, "Controller listener with name CONTROLLER defined in"),
        ({"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "have the same port 1"),
        ({"listeners": "EXTRA://:1,CONTROLLER://:2"}, "no security protocol is defined for listener EXTRA"),
        ({"max_connections_per_ip_overrides": "host"}, "is not of the form HOST:COUNT"),
    ],
)
def test_bad_listeners_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        server(**changes)


def test_named_listener_is_used_between_brokers() -> None:
    config = server(
        listeners="A://:1,B://:2,CONTROLLER://:3",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="b",
    )
    assert config.inter_broker_listener_name == "B"


def test_protocol_between_brokers_names_the_listener() -> None:
    assert server(security_inter_broker_protocol="PLAINTEXT").inter_broker_listener_name == "PLAINTEXT"


def test_controllers_are_plain_where_no_protocol_is_chosen() -> None:
    config = server(listeners="PLAINTEXT://:1,ctrl://:2", controller_listener_names="Ctrl")
    assert config.security_protocols["CTRL"] == "PLAINTEXT"


def test_cordoned_log_dirs_are_some_or_all_of_the_log_dirs() -> None:
    assert server(log_dirs="a,b").cordoned_log_dirs == ()
    assert server(log_dirs="a,b", cordoned_log_dirs="b").cordoned_log_dirs == ("b",)
    assert server(log_dirs="a,b", cordoned_log_dirs="*").cordoned_log_dirs == ("a", "b")


@pytest.mark.parametrize(
    ("cordoned", "message"), [("*,b", "must not contain other values"), ("b,c,d", r"Missing entries : c,d$")]
)
def test_bad_cordoned_log_dirs_are_refused(cordoned: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        server(log_dirs="a,b", cordoned_log_dirs=cordoned)
