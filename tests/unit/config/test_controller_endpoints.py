"""What other nodes dial to reach a controller."""

from __future__ import annotations

from crabka.config.controller_endpoints import controller_endpoints
from crabka.config.listeners import ListenerAddress
from crabka.config.server import ServerConfig


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
