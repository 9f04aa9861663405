"""A command's connection to a cluster: opened, used once, closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from crabka.clients.admin import Admin
from crabka.clients.cluster import Cluster, ClusterSettings
from crabka.clients.connection import ConnectionSettings
from crabka.clients.controller_cluster import ControllerCluster
from crabka.runtime import real_runtime, run

T = TypeVar("T")

CLIENT_ID = "crabka-cli"
METADATA_TIMEOUT_MS = 10_000


def with_cluster(bootstrap: str, use: Callable[[Cluster], Awaitable[T]], cluster_class: type[Cluster] = Cluster) -> T:
    """Connect, call `use`, disconnect. Raises ConfigError for a bad address and what `use` raises."""

    async def session() -> T:
        runtime = real_runtime()
        settings = ClusterSettings(
            connection=ConnectionSettings(client_id=CLIENT_ID), metadata_timeout_ms=METADATA_TIMEOUT_MS
        )
        try:
            async with cluster_class(runtime, bootstrap, settings) as cluster:
                return await use(cluster)
        finally:
            runtime.threads.close()

    return run(session())


def with_admin(bootstrap: str, use: Callable[[Admin], Awaitable[T]], *, controllers: str | None = None) -> T:
    """Like `with_cluster` for administrative calls; with addresses of controllers they are asked instead of brokers."""
    if controllers is not None:
        return with_cluster(controllers, lambda cluster: use(Admin(cluster)), ControllerCluster)
    return with_cluster(bootstrap, lambda cluster: use(Admin(cluster)))
