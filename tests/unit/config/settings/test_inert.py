"""Settings that Crabka only knows."""

from __future__ import annotations

from crabka.config.settings.inert import INERT_KEYS
from crabka.config.settings.security import SECURITY_KEYS
from crabka.config.settings.table import SERVER_KEYS
from tests.unit.config.nodes import server


def test_all_keys_without_effect_are_here_or_are_refused() -> None:
    inert = {name for name, key in SERVER_KEYS.items() if key.effect == "none"}
    assert inert == {key.name for key in (*INERT_KEYS, *SECURITY_KEYS) if key.effect == "none"}
    assert {key.effect for key in INERT_KEYS} == {"none"}


def test_values_are_reported() -> None:
    config = server()
    for key in INERT_KEYS:
        assert config.value(key.name) == key.default_value
