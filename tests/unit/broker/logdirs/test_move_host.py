"""What moves are given by their node."""

from __future__ import annotations

from crabka.broker.logdirs.move_host import PausableCleaner, ReplicaAssignments
from tests.support.moves.node import TWO_DIRS
from tests.support.nodes.sim_node import SimNode


def test_a_node_gives_its_moves_what_they_need() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        host = node.context.moves.host
        cleaner: PausableCleaner = host.cleaner
        assignments: ReplicaAssignments = host.assignments
        assert cleaner is node.context.cleaner
        assert host.logs is node.context.logs
        assert callable(assignments.assign)
        assert host.throttle.bytes_per_second is None
