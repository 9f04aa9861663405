"""Listener lists, the security protocol of each name, and what other nodes dial to reach a controller."""

from __future__ import annotations

import pytest

from crabka.config.listeners import (
    ListenerAddress,
    check_ports,
    controller_endpoints,
    format_address,
    parse_address,
    parse_endpoints,
    parse_protocol_map,
)
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError

_PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SECURE": "SASL_SSL"}


def test_listener_is_split_into_name_host_and_port() -> None:
    parsed = parse_endpoints("listeners", ["PLAINTEXT://localhost:9092", "secure://:0"], _PROTOCOLS)
    assert parsed == (ListenerAddress("PLAINTEXT", "localhost", 9092), ListenerAddress("SECURE", "", 0, "SASL_SSL"))
    assert [str(endpoint) for endpoint in parsed] == ["PLAINTEXT://localhost:9092", "SECURE://:0"]


def test_ipv6_host_stands_in_brackets() -> None:
    (endpoint,) = parse_endpoints("listeners", ["PLAINTEXT://[::1]:9092"], _PROTOCOLS)
    assert (endpoint.host, str(endpoint)) == ("::1", "PLAINTEXT://[::1]:9092")
    assert format_address("::1", 5) == "[::1]:5"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["localhost:9092"], "is not a listener of the form NAME://HOST:PORT"),
        (["PLAINTEXT://localhost"], "is not a listener of the form"),
        (["PLAINTEXT://localhost:99999"], "is not a listener of the form"),
        (["OTHER://:1"], "no security protocol is defined for listener OTHER"),
        (["PLAINTEXT://:1", "plaintext://:2"], "each listener must have a different name"),
    ],
)
def test_bad_listener_is_refused(texts: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_endpoints("listeners", texts, _PROTOCOLS)


def test_two_listeners_cannot_share_a_port_unless_it_is_free_choice() -> None:
    check_ports(
        [
            ListenerAddress("A", "", 0),
            ListenerAddress("B", "", 0),
            ListenerAddress("C", "h", 1),
            ListenerAddress("D", "i", 1),
        ]
    )
    with pytest.raises(ConfigError, match="A and B have the same port 1"):
        check_ports([ListenerAddress("A", "", 1), ListenerAddress("B", "", 1)])


def test_protocol_map_is_read() -> None:
    assert parse_protocol_map("a:plaintext, B:SASL_SSL,") == {"A": "PLAINTEXT", "B": "SASL_SSL"}


@pytest.mark.parametrize("text", ["A", "A:NOPE", "A:SSL,a:SSL"])
def test_bad_protocol_map_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        parse_protocol_map(text)


@pytest.mark.parametrize(("text", "address"), [("h:1", ("h", 1)), ("[::1]:0", ("::1", 0)), (":9092", ("", 9092))])
def test_address_is_split(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["h", "h:", "h:x", "h:70000", "::1:5"])
def test_bad_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        parse_address(text)


def _config(**changes: str) -> ServerConfig:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://h:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECOND:PLAINTEXT",
    }
    changed = {key.replace("_", "."): value for key, value in changes.items()}
    return ServerConfig.from_properties({**properties, **changed})[0]


def test_a_listener_on_all_addresses_is_reached_on_this_machine() -> None:
    assert controller_endpoints(_config()) == (ListenerAddress("CONTROLLER", "localhost", 9093),)


def test_what_is_advertised_wins() -> None:
    config = _config(advertised_listeners="PLAINTEXT://out:19092,controller://out:19093")
    assert controller_endpoints(config) == (ListenerAddress("CONTROLLER", "out", 19093),)


def test_endpoints_are_in_the_order_of_the_names() -> None:
    config = _config(
        listeners="PLAINTEXT://h:9092,CONTROLLER://h:9093,SECOND://h:9094",
        controller_listener_names="SECOND,CONTROLLER",
    )
    assert [each.name for each in controller_endpoints(config)] == ["SECOND", "CONTROLLER"]


def test_a_broker_has_none() -> None:
    assert controller_endpoints(_config(process_roles="broker", listeners="PLAINTEXT://h:9092")) == ()
