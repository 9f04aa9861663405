"""Settings that only Crabka has."""

from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_records_are_looked_into_only_on_request() -> None:
    assert not server().crabka_validate_records
    assert server(crabka_validate_records="true").crabka_validate_records


def test_an_append_of_half_a_second_is_slow() -> None:
    assert server().crabka_slow_append_ms == 500
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        server(crabka_slow_append_ms="0")


def test_http_listener_is_an_address() -> None:
    assert server().crabka_http_listener is None
    assert server(crabka_http_listener="127.0.0.1:0").crabka_http_listener == "127.0.0.1:0"
    with pytest.raises(ConfigError, match="Not an address of the form HOST:PORT"):
        server(crabka_http_listener="somewhere")
