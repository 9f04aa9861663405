"""Settings of sockets and requests."""

from __future__ import annotations

import pytest

from crabka.config.keys import index_keys
from crabka.config.settings.network import NETWORK_KEYS
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_value_is_checked_and_becomes_a_field() -> None:
    key = index_keys(NETWORK_KEYS)["socket.request.max.bytes"]
    assert server().socket_request_max_bytes == key.default_value
    with pytest.raises(ConfigError, match="Invalid value 0 for configuration"):
        server(socket_request_max_bytes="0")


def test_scope_says_when_a_key_may_change() -> None:
    assert index_keys(NETWORK_KEYS)["max.connections"].scope == "cluster-wide"
