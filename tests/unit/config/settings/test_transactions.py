"""Settings of transactions."""

from __future__ import annotations

import pytest

from crabka.config.keys import index_keys
from crabka.config.settings.transactions import TRANSACTIONS_KEYS
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_value_is_checked_and_becomes_a_field() -> None:
    key = index_keys(TRANSACTIONS_KEYS)["transaction.max.timeout.ms"]
    assert server().transaction_max_timeout_ms == key.default_value
    with pytest.raises(ConfigError, match="Invalid value 0 for configuration"):
        server(transaction_max_timeout_ms="0")


def test_scope_says_when_a_key_may_change() -> None:
    assert index_keys(TRANSACTIONS_KEYS)["transaction.partition.verification.enable"].scope == "cluster-wide"
