from __future__ import annotations

import pytest

from crabka.config.keys import INT, PASSWORD, REQUIRED, STRING, ConfigKey, boolean
from crabka.config.validators import at_least
from crabka.errors import ConfigError
from crabka.remote.backends.settings import StorageSettings

KEYS = (
    ConfigKey("bucket", STRING, REQUIRED, "The bucket."),
    ConfigKey("user", STRING, None, "The user."),
    ConfigKey("password", PASSWORD, None, "The password."),
    ConfigKey("size", INT, 5, "The size.", at_least(1)),
    boolean("fast", "Whether it is fast.", default=False),
)


def test_given_values_win_over_defaults() -> None:
    settings = StorageSettings(KEYS, {"bucket": " b ", "size": "7", "fast": "TRUE"})
    assert settings.text("bucket") == "b"
    assert settings.number("size") == 7
    assert settings.flag("fast")
    assert settings.maybe_text("user") is None


def test_defaults_hold_where_nothing_is_given() -> None:
    settings = StorageSettings(KEYS, {"bucket": "b"})
    assert settings.number("size") == 5
    assert not settings.flag("fast")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "bucket"),
        ({"bucket": "b", "buckets": "c"}, "buckets"),
        ({"bucket": "b", "size": "0"}, "size"),
        ({"bucket": "b", "size": "many"}, "size"),
        ({"bucket": "b", "fast": "yes"}, "fast"),
    ],
)
def test_an_error_names_the_setting(given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"\b{named}\b"):
        StorageSettings(KEYS, given)


def test_settings_that_belong_together_come_together() -> None:
    both = {"bucket": "b", "user": "u", "password": "hush-hush"}
    assert StorageSettings(KEYS, both).complete("user", "password")
    assert not StorageSettings(KEYS, {"bucket": "b"}).complete("user", "password")
    alone = StorageSettings(KEYS, {"bucket": "b", "password": "hush-hush"})
    with pytest.raises(ConfigError, match=r"password .* needs user") as refusal:
        alone.complete("user", "password")
    assert "hush" not in str(refusal.value)
