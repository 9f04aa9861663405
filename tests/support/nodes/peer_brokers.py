"""One broker among others on a simulated network: the others answer as a test says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from crabka.broker.controller_link.identity import BrokerIdentity
from crabka.broker.inter_broker.connections import BrokerConnections
from crabka.broker.inter_broker.outboxes import OtherBrokers
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.metadata.image import MetadataImage
from crabka.protocol.apis import ApiKey, MessageTypes, request_types, response_types
from crabka.runtime.task_scope import TaskScope
from crabka.testing import MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop, simulated_runtime
from tests.support.clients.scripted_broker import ScriptedBroker
from tests.support.nodes.sim_node import SimNode
from tests.support.quorum.images import cluster

OWN_ID = 1
PEER_IDS = (2, 3)
PORT = 9092
LISTENER = "PLAINTEXT"


class PeerWorld:
    """Broker 1 with connections to brokers 2 and 3."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        rng = random.Random(5)
        self.network = SimulatedNetwork(loop, rng)
        self.runtime = simulated_runtime(loop, rng, self.network.host("host-1"), MemoryFileSystem())
        self.image: MetadataImage = cluster(OWN_ID, *PEER_IDS)
        self.identity = BrokerIdentity(OWN_ID, broker_epoch=OWN_ID)
        settings = ConnectionSettings(connect_timeout_ms=2_000)
        self.brokers = BrokerConnections(self.runtime, lambda: self.image, self.identity, LISTENER, settings)
        self.peers = {node_id: ScriptedBroker() for node_id in PEER_IDS}
        self.tasks = TaskScope()
        self.others = OtherBrokers(
            brokers=self.brokers,
            identity=self.identity,
            image=lambda: self.image,
            spawn=self.spawn,
            timeout_ms=lambda: 1_000,
        )

    async def listen(self) -> None:
        """Let the others listen."""
        for node_id, peer in self.peers.items():
            await peer.listen(self.network.host(f"host-{node_id}"), f"host-{node_id}", PORT)

    async def close(self) -> None:
        """End everything."""
        await self.tasks.close()
        await self.brokers.close()
        for peer in self.peers.values():
            peer.close()
        await asyncio.sleep(1)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run a coroutine as a task of the broker."""
        return self.tasks.start(coroutine)


def among_peers(test: Callable[[PeerWorld], Awaitable[None]]) -> None:
    """Run a test in virtual time."""
    loop = VirtualTimeLoop()
    world = PeerWorld(loop)

    async def main() -> None:
        await world.listen()
        try:
            await test(world)
        finally:
            await world.close()

    loop.run(main())


class FakeController:
    """A controller that answers as a test says."""

    def __init__(self, answer: Callable[[ApiKey, Any, MessageTypes], Any]) -> None:
        self.asked: list[tuple[ApiKey, Any]] = []
        self._answer = answer
        # Requests wait while it is not set.
        self.open = asyncio.Event()
        self.open.set()

    async def request(self, api_key: ApiKey, build: Callable[[MessageTypes], Any]) -> Any:
        """Note the request and answer it."""
        version = {ApiKey.CREATE_TOPICS: 7, ApiKey.ALLOCATE_PRODUCER_IDS: 0}[api_key]
        body = build(request_types(api_key, version))
        self.asked.append((api_key, body))
        await self.open.wait()
        return self._answer(api_key, body, response_types(api_key, version))

    def names(self) -> Sequence[list[str]]:
        """Return the topics of every CreateTopics so far."""
        return [[topic.name for topic in body.topics] for key, body in self.asked if key is ApiKey.CREATE_TOPICS]


def peer_of(node: SimNode) -> OtherBrokers:
    """Return what broker 2 needs of a running node; the test closes its connections."""
    rng = random.Random(6)
    runtime = simulated_runtime(node.loop, rng, node.network.host("peer"), MemoryFileSystem())
    identity = BrokerIdentity(2)
    return OtherBrokers(
        brokers=BrokerConnections(runtime, lambda: node.context.image, identity, LISTENER),
        identity=identity,
        image=lambda: node.context.image,
        spawn=node.context.spawn,
        timeout_ms=lambda: 1_000,
    )
