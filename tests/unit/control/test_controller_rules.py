"""What a node's file says to its controller."""

from __future__ import annotations

from dataclasses import replace

from crabka.control.controller_rules import controller_rules
from crabka.controller.control_view import ControllerRules
from tests.support.sim_node import SimNode


def test_the_rules_are_those_of_the_file(node: SimNode) -> None:
    config = replace(node.context.static_config, node_id=7, min_insync_replicas=2, unclean_leader_election_enable=True)
    assert controller_rules(config) == ControllerRules(7, 2, unclean_leader_election=True)
