"""docs/internals/consensus.md: the rules of the metadata quorum, and its roles as the transition table has them."""

from __future__ import annotations

from pathlib import Path

from crabka.kraft.roles import TRANSITIONS, RoleName
from crabka.kraft.settings import CHECK_QUORUM_FACTOR, KraftSettings

_TEMPLATE = Path(__file__).with_name("consensus.template.md")


def consensus_page() -> str:
    """Return the page."""
    values = {
        "@diagram@": state_diagram(),
        "@check_quorum_ms@": str(int(KraftSettings().fetch_timeout_ms * CHECK_QUORUM_FACTOR)),
    }
    page = _TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        page = page.replace(name, value)
    return page


def state_diagram() -> str:
    """Return the transition table as a Mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {RoleName.UNATTACHED.value}: start"]
    lines += [
        f"    {before.value} --> {after.value}: {reason}"
        for before, targets in TRANSITIONS.items()
        for after, reason in targets.items()
    ]
    return "\n".join([*lines, "```", ""])
