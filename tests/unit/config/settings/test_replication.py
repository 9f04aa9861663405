"""Settings of replication."""

from __future__ import annotations

import pytest

from crabka.config.keys import index_keys
from crabka.config.settings.replication import REPLICATION_KEYS
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_value_is_checked_and_becomes_a_field() -> None:
    key = index_keys(REPLICATION_KEYS)["replica.fetch.max.bytes"]
    assert server().replica_fetch_max_bytes == key.default_value
    with pytest.raises(ConfigError, match="Invalid value -1 for configuration"):
        server(replica_fetch_max_bytes="-1")


def test_scope_says_when_a_key_may_change() -> None:
    assert index_keys(REPLICATION_KEYS)["num.replica.fetchers"].scope == "cluster-wide"
