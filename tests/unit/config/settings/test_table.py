"""The table of all broker settings."""

from __future__ import annotations

import pytest

from crabka.config.settings.table import DYNAMIC_ONLY_KEYS, SERVER_KEY_GROUPS, SERVER_KEYS, unknown_key_warning


def test_every_key_is_in_one_area_and_described() -> None:
    names = [key.name for group in SERVER_KEY_GROUPS.values() for key in group]
    assert sorted(names) == list(SERVER_KEYS)
    assert all(key.doc.endswith(".") for key in SERVER_KEYS.values())


def test_defaults_pass_their_own_checks() -> None:
    for key in (*SERVER_KEYS.values(), *DYNAMIC_ONLY_KEYS.values()):
        if key.default_value is not None:
            key.check(key.default_value)


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("num.partition", "unknown setting num.partition, did you mean num.partitions?"),
        ("super.user", "unknown setting super.user, did you mean super.users?"),
        ("qqqqqq", "unknown setting qqqqqq"),
        ("zookeeper.connect", "zookeeper.connect has no effect: ZooKeeper is gone since Kafka 4.0"),
        ("rsm.config.dir", None),
        ("listener.name.plaintext.max.connections", None),
    ],
)
def test_unknown_name_gets_a_helpful_warning(name: str, warning: str | None) -> None:
    assert unknown_key_warning(name, ("rsm.config.",)) == warning
