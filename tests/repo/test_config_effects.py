"""The reference page is right about effects: a key has one exactly if some code acts on it."""

from __future__ import annotations

import re
from pathlib import Path

from crabka.config.keys import ConfigKey
from crabka.config.server import TOPIC_SYNONYMS
from crabka.config.settings.table import SERVER_KEYS
from crabka.config.topic import TOPIC_KEYS, field_name

SOURCE = Path(__file__).parents[2] / "src" / "crabka"
# Acted on by the settings package itself: they decide what another field or property of ServerConfig holds.
FOLDED = {
    "broker.id": "node.id",
    "listener.security.protocol.map": "listeners",
    "log.dir": "log.dirs",
    "log.retention.hours": "log.retention.ms",
    "log.retention.minutes": "log.retention.ms",
    "log.roll.hours": "log.roll.ms",
    "log.roll.jitter.hours": "log.roll.jitter.ms",
    "process.roles": "is.broker",
    "security.inter.broker.protocol": "inter.broker.listener.name",
}


# Modules outside `security` that read settings of listeners by their names.
READERS = {"node_security.py", "server_tls.py", "store_settings.py"}


def _identifiers() -> frozenset[str]:
    """All attributes that the code of a node reads; settings, clients, commands and test kits are none."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).parts[0]
        text = path.read_text(encoding="utf-8")
        if package not in {"config", "cli", "clients", "testing", "embedded"} and "generated" not in path.parts:
            found |= set(re.findall(r"\.([a-z][a-z0-9_]+)\b", text))
        if package == "security" or path.name in READERS:
            # Settings of listeners are read by their names.
            found |= {field_name(name) for name in re.findall(r'"([a-z]+(?:\.[a-z]+)+)"', text)}
    return frozenset(found)


IDENTIFIERS = _identifiers()
BROKER_OF = {broker: topic for topic, broker in TOPIC_SYNONYMS.items()}


def _topic_key_is_used(name: str) -> bool:
    return bool({field_name(name), f"effective_{field_name(name).removeprefix('internal_')}"} & IDENTIFIERS)


def _server_key_is_used(name: str) -> bool:
    name = FOLDED.get(name, name)
    return field_name(name) in IDENTIFIERS or (name in BROKER_OF and _topic_key_is_used(BROKER_OF[name]))


def _wrong(keys: list[ConfigKey], used: set[str]) -> list[str]:
    return [
        f"{key.name}: declare effect={('full' if key.name in used else 'none')!r}"
        for key in keys
        if (key.effect == "full") != (key.name in used)
    ]


def test_topic_keys_have_the_effect_that_they_claim() -> None:
    used = {name for name in TOPIC_KEYS if _topic_key_is_used(name)}
    assert _wrong(list(TOPIC_KEYS.values()), used) == []


def test_broker_keys_have_the_effect_that_they_claim() -> None:
    used = {name for name in SERVER_KEYS if _server_key_is_used(name)}
    assert _wrong(list(SERVER_KEYS.values()), used) == []


def test_a_wrong_claim_is_found() -> None:
    key = SERVER_KEYS["node.id"]
    assert _wrong([key], {"node.id"}) == []
    assert _wrong([key], set()) == ["node.id: declare effect='none'"]
