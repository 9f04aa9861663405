"""Runs client code against a memory cluster in virtual time: timeouts and pauses cost nothing."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.security.sasl import SaslClient, SaslCredentials
from crabka.clients.security.security import ClientSecurity
from crabka.ports import Runtime
from crabka.security.secret import Secret
from crabka.testing import MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop, simulated_runtime
from tests.support.clients.scram_server import SaslScript
from tests.support.clusters.memory import MemoryCluster

CLIENT_HOST = "client"
HASTY = ClusterSettings(ConnectionSettings(request_timeout_ms=2_000, connect_timeout_ms=2_000))


@dataclass
class ClientSimulation:
    """A cluster in memory, a network, and the ports of a client."""

    brokers: MemoryCluster
    network: SimulatedNetwork
    runtime: Runtime
    loop: VirtualTimeLoop
    bootstrap: str = ""
    settings: ClusterSettings = HASTY

    def refusing_user(self) -> ClusterSettings:
        """Let the brokers want SASL from now on; return settings of a client with another password than they know."""
        for broker in self.brokers.brokers.values():
            SaslScript("pencil").install(broker)
        sasl = SaslClient(SaslCredentials("PLAIN", "alice", Secret("crayon")), random.Random(1))
        return replace(self.settings, connection=replace(self.settings.connection, security=ClientSecurity(sasl=sasl)))

    def brief_sessions(self, lifetime_ms: int) -> ClusterSettings:
        """Let the brokers want SASL from now on, and end sessions; return settings of a user that they know."""
        for broker in self.brokers.brokers.values():
            SaslScript("pencil", lifetime_ms=lifetime_ms).install(broker)
        sasl = SaslClient(SaslCredentials("PLAIN", "alice", Secret("pencil")), random.Random(1))
        return replace(self.settings, connection=replace(self.settings.connection, security=ClientSecurity(sasl=sasl)))

    def connect(self, settings: ClusterSettings | None = None) -> Cluster:
        """Return a client's cluster object; the test closes it."""
        return Cluster(self.runtime, self.bootstrap, settings or self.settings)


def simulate(
    test: Callable[[ClientSimulation], Awaitable[None]], *, node_ids: tuple[int, ...] = (1,), seed: int = 7
) -> None:
    """Run a test's coroutine function with fresh brokers."""
    loop = VirtualTimeLoop()
    rng = random.Random(seed)
    network = SimulatedNetwork(loop, rng)
    runtime = simulated_runtime(loop, rng, network.host(CLIENT_HOST), MemoryFileSystem())
    simulation = ClientSimulation(MemoryCluster(node_ids), network, runtime, loop)

    async def main() -> None:
        simulation.bootstrap = await simulation.brokers.start(network.host)
        try:
            await test(simulation)
        finally:
            simulation.brokers.close()

    loop.run(main())
