"""A running node for every test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nodes.sim_node import SimNode


@pytest.fixture
def node() -> Iterator[SimNode]:
    """A fresh node with one log dir."""
    with SimNode() as running:
        yield running
