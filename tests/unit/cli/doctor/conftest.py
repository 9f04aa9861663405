"""The overview of the node that all tests of the command line share, and a way to gather from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from crabka.cli.doctor.gathering.overview import Overview, gather_overview
from crabka.cli.session import with_cluster
from crabka.clients.cluster.cluster import Cluster

T = TypeVar("T")
Gather = Callable[[Callable[[Cluster, Overview], Awaitable[T]]], T]


@pytest.fixture
def gathered(broker: str) -> Gather[object]:
    """Call a function with a connection and an overview."""

    def run(gather: Callable[[Cluster, Overview], Awaitable[T]]) -> T:
        async def use(cluster: Cluster) -> T:
            return await gather(cluster, await gather_overview(cluster))

        return with_cluster(broker, use)

    return run
