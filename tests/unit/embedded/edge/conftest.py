"""A simulated node with an edge in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabka.embedded.edge.edge import Edge

if TYPE_CHECKING:
    from tests.support.nodes.sim_node import SimNode


@pytest.fixture
def edge(node: SimNode) -> Edge:
    """Faults and journal of the node `node`."""
    edge = Edge(journal=True)

    async def attach() -> None:
        assert node.node is not None
        edge.attach(node.node, node.clock, 1)

    node.run(attach())
    return edge
