"""All broker settings in one table, and what a name that is not in it may mean."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from crabka.config.keys import CLUSTER_WIDE, LONG, LONG_MAX, ConfigKey, index_keys
from crabka.config.settings.crabka import CRABKA_KEYS
from crabka.config.settings.groups import GROUPS_KEYS
from crabka.config.settings.inert import INERT_KEYS
from crabka.config.settings.log import LOG_KEYS
from crabka.config.settings.network import NETWORK_KEYS
from crabka.config.settings.quorum import QUORUM_KEYS
from crabka.config.settings.replication import REPLICATION_KEYS
from crabka.config.settings.security import AUTHORIZER_KEYS, SECURITY_KEYS
from crabka.config.settings.tiering import TIERING_KEYS
from crabka.config.settings.transactions import TRANSACTIONS_KEYS
from crabka.config.validators import at_least

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVER_KEY_GROUPS: Mapping[str, tuple[ConfigKey, ...]] = {
    "Node and metadata quorum": QUORUM_KEYS,
    "Network": NETWORK_KEYS,
    "Logs": LOG_KEYS,
    "Replication": REPLICATION_KEYS,
    "Consumer groups": GROUPS_KEYS,
    "Transactions": TRANSACTIONS_KEYS,
    "Tiered storage": TIERING_KEYS,
    "Only in Crabka": CRABKA_KEYS,
    "Security": SECURITY_KEYS,
    "Known, without effect": INERT_KEYS,
}
"""All settings of a properties file by area, in reading order."""

SERVER_KEYS: Mapping[str, ConfigKey] = index_keys(*SERVER_KEY_GROUPS.values())
"""All settings of a properties file by name."""

DYNAMIC_ONLY_KEYS: Mapping[str, ConfigKey] = index_keys(
    tuple(
        ConfigKey(name, LONG, LONG_MAX, doc, at_least(0), scope=CLUSTER_WIDE)
        for name, doc in (
            ("leader.replication.throttled.rate", "Bytes per second that throttled leader replicas send."),
            ("follower.replication.throttled.rate", "Bytes per second that throttled follower replicas fetch."),
            ("replica.alter.log.dirs.io.max.bytes.per.second", "Bytes per second of moves between directories."),
        )
    )
)
"""Broker settings that exist only as dynamic ones (KIP-73, KIP-113)."""

# Names below it belong to one listener.
_LISTENER_PREFIX = "listener.name."
_REMOVED = {
    "zookeeper.connect": "ZooKeeper is gone since Kafka 4.0",
    "inter.broker.protocol.version": "the metadata version replaces it since Kafka 4.0",
    "log.message.format.version": "only format 2 exists since Kafka 4.0",
}


def unknown_key_warning(name: str, plugin_prefixes: tuple[str, ...]) -> str | None:
    """Return the warning for a name that is no broker setting, or None where it needs none."""
    if name in _REMOVED:
        return f"{name} has no effect: {_REMOVED[name]}"
    if name.startswith((_LISTENER_PREFIX, *plugin_prefixes)):
        return None
    nearest = difflib.get_close_matches(name, (*SERVER_KEYS, *AUTHORIZER_KEYS), n=1, cutoff=0.6)
    return f"unknown setting {name}" + (f", did you mean {nearest[0]}?" if nearest else "")
