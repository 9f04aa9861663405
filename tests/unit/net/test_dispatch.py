from __future__ import annotations

from crabka.net.dispatch import ConnectionInfo
from crabka.security.principal import ANONYMOUS


def test_a_peer_is_named_by_its_address_and_is_anonymous_before_it_logs_in() -> None:
    info = ConnectionInfo(1, "PLAINTEXT", "10.0.0.7", 40123)
    assert str(info) == "10.0.0.7:40123"
    assert info.principal is ANONYMOUS


def test_a_peer_without_a_socket_can_be_muted() -> None:
    """A forwarded request has the peer of another node's connection."""
    ConnectionInfo(0, "", "local", 0).mute(1000)


def test_two_connections_of_one_peer_are_two_keys() -> None:
    first, second = (ConnectionInfo(number, "PLAINTEXT", "h", 1) for number in (1, 1))
    assert len({first, second}) == 2
