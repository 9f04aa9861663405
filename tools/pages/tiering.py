"""docs/internals/tiering.md: how the remote tier works, with the states of segments as the tables have them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

from crabka.remote.lifecycle import PARTITION_DELETE_TRANSITIONS, SEGMENT_TRANSITIONS
from crabka.remote.plugins import BUILT_IN_STORAGES

State = TypeVar("State", bound=IntEnum)

_TEMPLATE = Path(__file__).with_name("tiering.template.md")


def tiering_page() -> str:
    """Return the page."""
    values = {
        "@segment_diagram@": transition_diagram(SEGMENT_TRANSITIONS),
        "@partition_diagram@": transition_diagram(PARTITION_DELETE_TRANSITIONS),
        "@storages@": _storage_table(),
    }
    page = _TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        page = page.replace(name, value)
    return page


def transition_diagram(table: Mapping[State | None, Mapping[State, str]]) -> str:
    """Return a transition table as a Mermaid diagram; unknown before the first state and after the last is `[*]`."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for before, targets in table.items():
        source = "[*]" if before is None else before.name
        lines += [f"    {source} --> {after.name}: {reason}" for after, reason in targets.items()]
        if not targets:
            lines.append(f"    {source} --> [*]: forgotten")
    return "\n".join([*lines, "```"])


def _storage_table() -> str:
    rows = [f"| `{name}` | `{place.partition(':')[0]}` |" for name, place in BUILT_IN_STORAGES.items()]
    return "\n".join(["| name | module |", "|---|---|", *rows])
