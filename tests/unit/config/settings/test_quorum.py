"""Settings of the metadata quorum."""

from __future__ import annotations

import pytest

from crabka.config.keys import index_keys
from crabka.config.settings.quorum import QUORUM_KEYS
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_value_is_checked_and_becomes_a_field() -> None:
    key = index_keys(QUORUM_KEYS)["metadata.log.segment.bytes"]
    assert server().metadata_log_segment_bytes == key.default_value
    with pytest.raises(ConfigError, match="Invalid value 5 for configuration"):
        server(metadata_log_segment_bytes="5")


def test_scope_says_when_a_key_may_change() -> None:
    assert index_keys(QUORUM_KEYS)["node.id"].scope == "read-only"
