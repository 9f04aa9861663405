"""Settings of consumer groups."""

from __future__ import annotations

import pytest

from crabka.config.keys import index_keys
from crabka.config.settings.groups import GROUPS_KEYS
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_value_is_checked_and_becomes_a_field() -> None:
    key = index_keys(GROUPS_KEYS)["group.max.size"]
    assert server().group_max_size == key.default_value
    with pytest.raises(ConfigError, match="Invalid value 0 for configuration"):
        server(group_max_size="0")


def test_scope_says_when_a_key_may_change() -> None:
    assert index_keys(GROUPS_KEYS)["group.consumer.assignment.interval.ms"].scope == "cluster-wide"
