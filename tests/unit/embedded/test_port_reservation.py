"""A port that stays ours while nothing listens on it."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from crabka.embedded.port_reservation import PortReservation
from crabka.errors import ConfigError


def test_a_node_can_listen_on_a_reserved_port_and_come_back() -> None:
    reservation = PortReservation("127.0.0.1")
    for _ in range(3):
        socket.create_server(("127.0.0.1", reservation.port)).close()
    reservation.release()
    reservation.release()


def test_a_reserved_port_is_not_given_as_any_free_port() -> None:
    reservation = PortReservation("127.0.0.1")
    others = [PortReservation("127.0.0.1") for _ in range(200)]
    assert reservation.port not in [other.port for other in others]
    for each in (reservation, *others):
        each.release()


def test_a_port_on_which_another_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 cannot be used"):
            PortReservation("127.0.0.1", port)
    with pytest.raises(ConfigError, match=r"the address no.such.host.invalid cannot be used"):
        PortReservation("no.such.host.invalid")


@pytest.mark.parametrize("port", [-1, 65_536, "9092", None])
def test_what_is_no_port_is_refused(port: Any) -> None:
    with pytest.raises(ConfigError, match="a port is a number from 0 to 65535, not"):
        PortReservation("127.0.0.1", port)
