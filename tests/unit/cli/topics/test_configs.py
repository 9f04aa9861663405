"""`crabka configs` against a node."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import RunCommand


def test_topic_settings_are_changed_and_shown(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "settings", "-c", "retention.ms=1000")
    changed = on_broker(
        "configs", "alter", "topic", "settings", "--set", "segment.ms=5", "--append", "cleanup.policy=compact",
        "--delete", "retention.ms",
    )  # fmt: skip
    assert (changed.code, changed.out) == (0, "changed segment.ms, cleanup.policy, retention.ms of topic settings\n")
    on_broker("configs", "alter", "topic", "settings", "--subtract", "cleanup.policy=delete")
    shown = {row["key"]: row["value"] for row in on_broker("configs", "describe", "topic", "settings", "--json").json}
    assert shown == {"segment.ms": "5", "cleanup.policy": "compact", "min.insync.replicas": "1"}


def test_defaults_and_meanings_are_shown_on_request(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "meanings")
    rows = on_broker("configs", "describe", "topic", "meanings", "--all", "--docs", "--json").json
    (row,) = [row for row in rows if row["key"] == "retention.ms"]
    assert (row["value"], row["source"], row["type"]) == ("604800000", "default", "long")
    assert row["meaning"]


def test_broker_settings_can_be_looked_at(on_broker: RunCommand) -> None:
    lines = on_broker("configs", "describe", "broker", "1").out.splitlines()
    assert lines[0] == "key\tvalue\tsource"
    assert "node.id\t1\tstatic broker" in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("alter", "topic", "t"), "nothing to change: give --set, --append, --subtract or --delete"),
        (("describe", "topic"), "which topic? give its name"),
        (("describe", "broker", "one"), "one is not a broker id"),
        (("alter", "topic", "t", "--set", "a"), "--set a: not of the form key=value"),
    ],
)
def test_bad_input_is_refused(crabka: RunCommand, arguments: tuple[str, ...], message: str) -> None:
    outcome = crabka("configs", *arguments)
    assert (outcome.code, outcome.err) == (2, f"crabka: {message}\n")
