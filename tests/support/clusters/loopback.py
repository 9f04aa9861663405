"""A memory cluster on real sockets of the loopback interface, in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crabka.clients.sync.session import LoopThread
from crabka.runtime import AsyncioNetwork
from tests.support.clusters.memory import MemoryCluster


@contextmanager
def loopback_cluster(node_ids: tuple[int, ...] = (1,)) -> Iterator[tuple[MemoryCluster, str]]:
    """Yield the cluster and its bootstrap text."""
    thread = LoopThread("memory-cluster")
    cluster = MemoryCluster(node_ids)
    network = AsyncioNetwork()

    async def stop() -> None:
        cluster.close()

    try:
        bootstrap = thread.run(cluster.start(lambda _: network, "127.0.0.1"))
        yield cluster, bootstrap
    finally:
        thread.run(stop())
        thread.close()
