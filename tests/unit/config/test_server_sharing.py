"""Settings of share and streams groups."""

from __future__ import annotations

from crabka.config.server_sharing import SHARING_KEYS
from tests.unit.config.nodes import server


def test_keys_are_known_and_marked_as_without_effect() -> None:
    assert {key.effect for key in SHARING_KEYS} == {"none"}


def test_values_are_reported_though_they_have_no_field() -> None:
    config = server()
    for key in SHARING_KEYS:
        assert config.value(key.name) == key.default_value
