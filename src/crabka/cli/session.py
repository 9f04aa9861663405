"""A command's connection to a cluster: opened, used once, closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import TypeVar

from crabka.cli.node.serve import read_properties
from crabka.cli.silence import explaining_silence
from crabka.cli.timeouts import answer_timeout_ms
from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.cluster.metadata_sources import BrokerMetadata, ControllerMetadata, MetadataSource
from crabka.clients.security.security import ClientSecurity
from crabka.runtime import real_runtime, run

T = TypeVar("T")

CLIENT_ID = "crabka-cli"
CONNECT_TIMEOUT_MS = 10_000
METADATA_TIMEOUT_MS = 10_000


def with_cluster(
    bootstrap: str,
    use: Callable[[Cluster], Awaitable[T]],
    *,
    source: MetadataSource | None = None,
    command_config: str | None = None,
    expects_silence: bool = False,
) -> T:
    """Connect with a file of client properties, call `use`, disconnect.

    A cluster that is silent although that is not expected is explained on stderr.
    Raises ConfigError for a bad address or file, and what `use` raises.
    """
    settings = cluster_settings(command_config)

    async def session() -> T:
        runtime = real_runtime()
        try:
            async with (
                Cluster(runtime, bootstrap, settings, source) as cluster,
                nullcontext() if expects_silence else explaining_silence(runtime, bootstrap, settings, source),
            ):
                return await use(cluster)
        finally:
            runtime.threads.close()

    return run(session())


def with_admin(
    bootstrap: str,
    use: Callable[[Admin], Awaitable[T]],
    *,
    controllers: str | None = None,
    command_config: str | None = None,
) -> T:
    """Like `with_cluster` for administrative calls. Addresses of controllers replace those of brokers."""
    address = bootstrap if controllers is None else controllers
    source = BrokerMetadata() if controllers is None else ControllerMetadata()
    return with_cluster(address, lambda cluster: use(Admin(cluster)), source=source, command_config=command_config)


def cluster_settings(command_config: str | None) -> ClusterSettings:
    """Return the settings of connections from a file of client properties. Raises ConfigError."""
    properties: Mapping[str, str] = read_properties(command_config) if command_config else {}
    timeout_ms = answer_timeout_ms()
    connection = ConnectionSettings(
        client_id=properties.get("client.id", CLIENT_ID),
        connect_timeout_ms=min(CONNECT_TIMEOUT_MS, timeout_ms),
        request_timeout_ms=timeout_ms,
        security=ClientSecurity.from_properties(properties),
    )
    return ClusterSettings(connection, metadata_timeout_ms=min(METADATA_TIMEOUT_MS, timeout_ms))
