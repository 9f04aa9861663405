"""A port that stays ours while nothing listens on it."""

from __future__ import annotations

import socket

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
