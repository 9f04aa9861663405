"""docs/configuration.md: every setting, from its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.config.client_metrics import CLIENT_METRICS_KEYS
from crabka.config.group import GROUP_KEYS
from crabka.config.keys import REQUIRED, ConfigKey
from crabka.config.server import TOPIC_SYNONYMS
from crabka.config.settings.table import DYNAMIC_ONLY_KEYS, SERVER_KEY_GROUPS
from crabka.config.topic import TOPIC_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

_INTRODUCTION = """\
# Configuration

<!-- Made by tools/generate_docs.py from src/crabka/config. Change the declarations there, then run `make docs`. -->

Crabka reads Kafka's own `server.properties`: the same names, the same defaults, the same checks as Apache Kafka 4.3.
Settings that only Crabka has begin with `crabka.`.

- `crabka serve --config server.properties` takes a file; `--override key=value` changes single keys.
- `crabka up --set key=value` starts from the settings of a lone node, so that internal topics need no second replica.
- An unknown key is a warning with the nearest known key. A bad value is one line on stderr and exit code 2.
- TLS and SASL are served ([how](operations/security.md)). What is not served stops the start, unless
  `--insecure-ignore-security` is given; then listeners with TLS and SASL are without both.
- Crabka runs no Java. Classes whose work it does itself are accepted, for example Kafka's `LocalTieredStorage` and
  `TopicBasedRemoteLogMetadataManager`; any other class stops the start.

How to read the tables: **change** says whether a key can change while the node runs (`kafka-configs`, `crabka configs
alter`): for one broker, for one broker or the whole cluster, or only by a restart. A key marked *no effect* is known,
checked and reported by DescribeConfigs, but Crabka does not act on it.
"""

_CHANGE = {"read-only": "restart", "per-broker": "broker", "cluster-wide": "broker, cluster"}


def configuration_page() -> str:
    """Return the reference of all settings."""
    parts = [_INTRODUCTION, "## Topics\n", _topic_table(), "\n# Nodes\n"]
    for area, keys in SERVER_KEY_GROUPS.items():
        parts += [f"\n## {area}\n", _server_table(keys)]
    parts += ["\n## Only as dynamic settings\n", _server_table(DYNAMIC_ONLY_KEYS.values())]
    parts += ["\n# Groups\n", _plain_table(GROUP_KEYS.values())]
    parts += ["\n# Client metrics subscriptions\n", _plain_table(CLIENT_METRICS_KEYS.values())]
    return "\n".join(parts)


def _topic_table() -> str:
    rows = [(f"`{key.name}`", _type(key), _default(key), _node_key(key.name), _doc(key)) for key in TOPIC_KEYS.values()]
    return _table(("key", "type", "default", "default comes from", "meaning"), rows)


def _node_key(name: str) -> str:
    return f"`{TOPIC_SYNONYMS[name]}`" if name in TOPIC_SYNONYMS else ""


def _server_table(keys: Iterable[ConfigKey]) -> str:
    rows = [(f"`{key.name}`", _type(key), _default(key), _CHANGE[key.scope], _doc(key)) for key in keys]
    return _table(("key", "type", "default", "change", "meaning"), rows)


def _plain_table(keys: Iterable[ConfigKey]) -> str:
    rows = [(f"`{key.name}`", _type(key), _default(key), _doc(key)) for key in keys]
    return _table(("key", "type", "default", "meaning"), rows)


def _type(key: ConfigKey) -> str:
    kind = key.type.name.lower()
    return f"{kind} {key.validator.describe()}" if key.validator is not None else kind


def _default(key: ConfigKey) -> str:
    if key.default is REQUIRED:
        return "required"
    return f"`{key.default_text}`" if key.default_text else ""


def _doc(key: ConfigKey) -> str:
    return f"{key.doc} *No effect.*" if key.effect == "none" else key.doc


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(_row(line) for line in lines)


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"
