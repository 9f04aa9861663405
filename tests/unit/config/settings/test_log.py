"""Settings of logs."""

from __future__ import annotations

import pytest

from crabka.config.keys import index_keys
from crabka.config.settings.log import LOG_KEYS
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_value_is_checked_and_becomes_a_field() -> None:
    key = index_keys(LOG_KEYS)["log.segment.bytes"]
    assert server().log_segment_bytes == key.default_value
    with pytest.raises(ConfigError, match="Invalid value 5 for configuration"):
        server(log_segment_bytes="5")


def test_scope_says_when_a_key_may_change() -> None:
    assert index_keys(LOG_KEYS)["log.retention.ms"].scope == "cluster-wide"
