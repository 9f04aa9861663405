"""Settings of tiered storage."""

from __future__ import annotations

import pytest

from crabka.config.keys import index_keys
from crabka.config.settings.tiering import TIERING_KEYS
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_value_is_checked_and_becomes_a_field() -> None:
    key = index_keys(TIERING_KEYS)["remote.log.reader.threads"]
    assert server().remote_log_reader_threads == key.default_value
    with pytest.raises(ConfigError, match="Invalid value 0 for configuration"):
        server(remote_log_reader_threads="0")


def test_scope_says_when_a_key_may_change() -> None:
    assert index_keys(TIERING_KEYS)["remote.log.reader.threads"].scope == "cluster-wide"
