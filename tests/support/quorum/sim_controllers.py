"""Controllers on simulated machines: real quorum, real service, real listener; virtual time, network and disk."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

from crabka.config.server import ServerConfig
from crabka.controller.context import ControllerContext
from crabka.controller.service import ControllerService
from crabka.kraft.messages import Request as QuorumRequest
from crabka.kraft.settings import KraftSettings
from crabka.metadata.cluster import Endpoint
from crabka.metadata.features import SUPPORTED_FEATURES
from crabka.net import ConnectionLimits, Server
from crabka.ports import Listener, Network
from crabka.protocol.apis import ApiKey, request_types
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft.messages import encode_request
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.runtime.task_scope import TaskScope
from crabka.testing import MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop
from crabka.testing.simulated_runtime import simulated_runtime
from tests.support.nodes.sim_node import WireClient, build, row
from tests.support.quorum.node import DIRECTORY, QUIET
from tests.support.quorum.raft_cluster import PORT, format_replica, host_of, voter

T = TypeVar("T")
LISTENER = "CONTROLLER"
CLUSTER_ID = "cluster"
BROKER_HOST = "broker"


def controller_config(node_id: int, voters: int, settings: dict[str, str]) -> ServerConfig:
    """Return the config of a node that is a controller only."""
    bootstrap = ",".join(f"{host_of(each)}:{PORT}" for each in range(1, voters + 1))
    properties = {
        "process.roles": "controller",
        "node.id": str(node_id),
        "listeners": f"{LISTENER}://{host_of(node_id)}:{PORT}",
        "controller.listener.names": LISTENER,
        "controller.quorum.bootstrap.servers": bootstrap,
        "log.dirs": DIRECTORY,
    }
    return ServerConfig.from_properties({**properties, **settings})[0]


class SimController:
    """One machine with a controller."""

    def __init__(self, cluster: SimControllers, node_id: int, settings: dict[str, str]) -> None:
        self.node_id = node_id
        self.config = controller_config(node_id, cluster.count, settings)
        self.fs = MemoryFileSystem()
        self._cluster = cluster
        self._tasks = TaskScope()
        self.quorum: RaftQuorum
        self.service: ControllerService
        self.server: Server

    @property
    def context(self) -> ControllerContext:
        """What the handlers share."""
        return self.service.context

    async def start(self) -> None:
        """Start on what the disk holds."""
        cluster = self._cluster
        runtime = simulated_runtime(cluster.loop, cluster.rng, cluster.network.host(host_of(self.node_id)), self.fs)
        options = QuorumOptions(
            log=QUIET,
            # Elections are not what is tested: they shall not take long.
            kraft=KraftSettings(election_timeout_ms=100),
            endpoints=voter(self.node_id).endpoints,
        )
        self.quorum = await RaftQuorum.open(runtime, DIRECTORY, self.node_id, options)
        self.service = ControllerService(
            self.config,
            runtime,
            self.quorum,
            cluster_id=CLUSTER_ID,
            spawn=self._tasks.start,
            serve=self._tasks.start,
            on_broken_invariant=cluster.fail,
        )
        limits = ConnectionLimits(max_idle_ms=-1)
        closed = self.service.connection_closed
        self.server = Server(runtime.network, self.service.dispatcher, limits, LISTENER, on_closed=closed)
        await self.server.listen(host_of(self.node_id), PORT)
        await self.service.start([Endpoint(LISTENER, host_of(self.node_id), PORT, 0)])

    async def stop(self) -> None:
        """Stop cleanly."""
        await self.service.close()
        await self.quorum.close()
        await self.server.close(grace_ms=10)
        await self._tasks.close()
        self._tasks = TaskScope()

    async def ask(self, api_key: ApiKey, version: int, body: Any = None, **fields: Any) -> Any:
        """Ask over a socket; fields that the version lacks are dropped."""
        client = await self.connect()
        client.post(api_key, version, body if body is not None else build(api_key, version, **fields))
        try:
            return (await client.response(api_key, version))[1]
        finally:
            client.transport.close()

    async def ask_quorum(self, api_key: ApiKey, version: int, message: QuorumRequest) -> Any:
        """Send a message of the quorum over a socket; return the body of the response."""
        return await self.ask(api_key, version, encode_request(request_types(api_key, version), message))

    async def connect(self) -> WireClient:
        """Open a connection from the machine of a broker."""
        host = self._cluster.network.host(BROKER_HOST)
        _, client = await host.connect(WireClient, host_of(self.node_id), PORT)
        assert isinstance(client, WireClient)
        return client


class SimControllers:
    """Some controllers in one simulation."""

    def __init__(self, loop: VirtualTimeLoop, count: int = 1, **settings: str) -> None:
        self.loop = loop
        self.count = count
        self.rng = random.Random(1)
        self.network = SimulatedNetwork(loop, random.Random(2))
        self.network.host(BROKER_HOST)
        properties = {name.replace("_", "."): value for name, value in settings.items()}
        self.nodes = [SimController(self, node_id, properties) for node_id in range(1, count + 1)]
        for node in self.nodes:
            self.network.host(host_of(node.node_id))
            format_replica(node.fs, node.node_id, tuple(voter(each) for each in range(1, count + 1)))

    def fail(self, error: Exception) -> None:
        """A node broke its own rules."""
        raise error

    async def active(self) -> SimController:
        """Wait for the active controller."""
        await self.wait(lambda: any(node.service.is_active for node in self.nodes))
        return next(node for node in self.nodes if node.service.is_active)

    async def passive(self) -> SimController:
        """Return a controller that is not active, once another one is."""
        active = await self.active()
        return next(node for node in self.nodes if node is not active)

    async def pause(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    async def wait(self, condition: Callable[[], bool], timeout_s: float = 60) -> None:
        """Wait until something holds. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.005)


def run_controllers(main: Callable[[SimControllers], Awaitable[T]], count: int = 1, **settings: str) -> T:
    """Run a test with controllers that are started before and stopped after it; settings have '_' for '.'."""
    loop = VirtualTimeLoop()

    async def wrapped() -> T:
        cluster = SimControllers(loop, count, **settings)
        for node in cluster.nodes:
            await node.start()
        try:
            await cluster.active()
            return await main(cluster)
        finally:
            for node in cluster.nodes:
                await node.stop()

    return loop.run(wrapped())


class WireBroker:
    """What a controller sees of a broker: its requests and its port."""

    def __init__(self, cluster: SimControllers, broker_id: int = 11, port: int = 9092) -> None:
        self._cluster = cluster
        self.broker_id = broker_id
        self.port = port
        self.incarnation_id = UUID(int=broker_id * 100)
        self.directory = UUID(int=broker_id * 1000)
        self.epoch = -1
        self.listener: Listener | None = None
        self._heartbeats: WireClient | None = None

    async def listen(self) -> None:
        """Accept connections, as a broker that runs does."""
        self.listener = await self._host().listen(asyncio.Protocol, BROKER_HOST, self.port)

    async def register(self, node: SimController, version: int = 4, **changes: Any) -> Any:
        """Register; return the response."""
        listeners = [row("Listener", name="PLAINTEXT", host=BROKER_HOST, port=self.port, security_protocol=0)]
        fields = {
            "broker_id": self.broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self.incarnation_id,
            "listeners": listeners,
            "features": [
                row("Feature", name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            "rack": None,
            "is_migrating_zk_broker": False,
            "log_dirs": (self.directory,),
            "previous_broker_epoch": -1,
            **changes,
        }
        response = await node.ask(ApiKey.BROKER_REGISTRATION, version, **fields)
        if response.error_code is ErrorCode.none:
            self.epoch = response.broker_epoch
        return response

    async def heartbeat(self, node: SimController, version: int = 2, **changes: Any) -> Any:
        """Send a heartbeat over the connection for them; return the response."""
        fields = {
            "broker_id": self.broker_id,
            "broker_epoch": self.epoch,
            "current_metadata_offset": node.quorum.image.offset,
            "want_fence": False,
            "want_shut_down": False,
            "offline_log_dirs": (),
            "cordoned_log_dirs": None,
            **changes,
        }
        if self._heartbeats is None or self._heartbeats.closed:
            self._heartbeats = await node.connect()
        self._heartbeats.post(ApiKey.BROKER_HEARTBEAT, version, build(ApiKey.BROKER_HEARTBEAT, version, **fields))
        return (await self._heartbeats.response(ApiKey.BROKER_HEARTBEAT, version))[1]

    async def serve(self, node: SimController) -> None:
        """Register and be unfenced."""
        assert (await self.register(node)).error_code is ErrorCode.none
        assert not (await self.heartbeat(node)).is_fenced

    def die(self) -> None:
        """End as a killed process does: its port is closed, its connections break."""
        if self.listener is not None:
            self.listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection for heartbeats."""
        if self._heartbeats is not None:
            self._heartbeats.transport.close()
            self._heartbeats = None

    def _host(self) -> Network:
        return self._cluster.network.host(BROKER_HOST)


async def create_topic(node: SimController, name: str, replicas: tuple[int, ...], **configs: str) -> UUID:
    """Create a topic with one partition on these brokers; return its id."""
    assignment = row("CreatableReplicaAssignment", partition_index=0, broker_ids=replicas)
    settings = [row("CreatableTopicConfig", name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = row(
        "CreatableTopic",
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[assignment],
        configs=settings,
    )
    fields = {"topics": [topic], "timeout": 1000, "validate_only": False}
    (created,) = (await node.ask(ApiKey.CREATE_TOPICS, 7, **fields)).topics
    assert created.error_code is ErrorCode.none, created
    topic_id = created.topic_id
    assert isinstance(topic_id, UUID)
    return topic_id
