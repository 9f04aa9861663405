"""What the node's own file contributes to decisions of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.control_view import ControllerRules

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig


def controller_rules(static_config: ServerConfig) -> ControllerRules:
    """Return the rules of a controller on this node; dynamic settings come from the metadata itself."""
    return ControllerRules(
        node_id=static_config.node_id,
        min_insync_replicas=static_config.min_insync_replicas,
        unclean_leader_election=static_config.unclean_leader_election_enable,
    )
