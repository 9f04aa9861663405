"""Requests that change client quotas."""

from __future__ import annotations

from typing import Any

from crabka.protocol.apis import ApiKey
from tests.support.nodes.sim_node import SimNode, row


def alter(node: SimNode, entity: dict[str, str | None], values: dict[str, float | None], **options: Any) -> Any:
    version = options.pop("version", 1)
    entry = row(
        "EntryData",
        entity=[row("EntityData", entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[row("OpData", key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    fields = {"validate_only": False, **options}
    return node.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=[entry], **fields).entries[0]
