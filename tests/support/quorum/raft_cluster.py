"""Replicas of a metadata quorum on simulated machines: real driver, real codec, real log; virtual network and disk."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from crabka.errors import OperationError
from crabka.kraft.settings import KraftSettings
from crabka.kraft.voters import VoterEndpoint, VoterNode
from crabka.log.healing.scrub_settings import ScrubSettings
from crabka.metadata.image import MetadataImage
from crabka.net import ConnectionInfo, ConnectionLimits, Server
from crabka.protocol.apis import SPECS, ApiKey, encode_response, read_request, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import pack_response, parse_request_header
from crabka.quorum.formatting import FormatPlan, write_format
from crabka.quorum.raft.messages import API_KEYS
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.settings import MetadataLogSettings
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop
from crabka.testing.simulated_clock import EPOCH_MS
from crabka.testing.simulated_runtime import simulated_runtime
from tests.support.quorum.node import DIRECTORY, new_topic

PORT = 9093
SETTINGS = MetadataLogSettings(
    max_idle_interval_ms=0, max_snapshot_interval_ms=0, segment_bytes=2000, retention_bytes=4000
)
SERVED = sorted({*API_KEYS.values()})


def host_of(node_id: int) -> str:
    """Name of the machine of a node."""
    return f"c{node_id}"


def voter(node_id: int, *, port: int = PORT, directory_id: UUID | None = None) -> VoterNode:
    """One of the voters; the directories are formatted with what it is by default."""
    return VoterNode(node_id, directory_id or UUID(int=node_id), (VoterEndpoint("CONTROLLER", host_of(node_id), port),))


def format_replica(
    fs: MemoryFileSystem, node_id: int, voters: tuple[VoterNode, ...], directory_id: UUID | None = None
) -> None:
    """Format the directory of a replica."""
    fs.makedirs(DIRECTORY)
    fs.fsync_dir("/")
    plan = FormatPlan(
        cluster_id="cluster",
        node_id=node_id,
        log_dirs=[DIRECTORY],
        metadata_dir=DIRECTORY,
        directory_ids={DIRECTORY: directory_id or UUID(int=node_id)},
        voters=voters,
    )
    write_format(fs, plan, now_ms=EPOCH_MS)


class RaftReplica:
    """One machine: a disk that lives on, and a quorum that comes and goes."""

    def __init__(self, cluster: RaftCluster, node_id: int, options: QuorumOptions) -> None:
        self.node_id = node_id
        self.fs = MemoryFileSystem()
        self.quorum: RaftQuorum | None = None
        # Every image that subscribers saw in this life, by offset.
        self.published: list[MetadataImage] = []
        self.active_epochs: list[int] = []
        # How many requests of each API came in.
        self.requests: Counter[ApiKey] = Counter()
        self.options = options
        self._cluster = cluster
        self._port = PORT
        self._server: Server | None = None
        self._threads: InlineThreads | None = None

    async def start(self) -> RaftQuorum:
        """Start on what the disk holds."""
        cluster = self._cluster
        runtime = simulated_runtime(cluster.loop, cluster.rng, cluster.network.host(host_of(self.node_id)), self.fs)
        assert isinstance(runtime.threads, InlineThreads)
        self._threads = runtime.threads
        self.published = []
        quorum = self.quorum = await RaftQuorum.open(runtime, DIRECTORY, self.node_id, self.options)
        quorum.subscribe(lambda _delta, image: self.published.append(image))
        quorum.on_leadership(self.active_epochs.append, lambda: None)
        self._server = Server(runtime.network, self._dispatch, ConnectionLimits(max_idle_ms=-1), "CONTROLLER")
        await self._server.listen(host_of(self.node_id), self._port)
        return quorum

    def move(self, port: int) -> None:
        """Listen elsewhere from the next start on."""
        self._port = port
        self.options = self.options._replace(endpoints=voter(self.node_id, port=port).endpoints)

    def replace_disk(self, directory_id: UUID) -> None:
        """Put in an empty disk, formatted for a node that joins a quorum."""
        self.fs = MemoryFileSystem()
        format_replica(self.fs, self.node_id, (), directory_id)

    async def stop(self) -> None:
        """Stop cleanly."""
        if self.quorum is not None:
            await self.quorum.close()
        if self._server is not None:
            await self._server.close(grace_ms=10)
        self.quorum = self._server = None

    async def crash(self, *, power: bool = True, harsh: bool = False) -> None:
        """Kill the process; a power cut also loses what was not synced, a random part of it unless it is harsh."""
        quorum, self.quorum = self.quorum, None
        self._server = None
        if quorum is None or self._threads is None:
            return
        self._threads.kill()
        self._cluster.network.crash(host_of(self.node_id))
        driver = quorum._driver
        running = (driver.task, driver.snapshots._task, *driver._tasks._tasks)
        tasks = [task for task in running if task is not None]
        # A task that is cancelled while it waits for a thread may wait once more: for one that is gone.
        while pending := [task for task in tasks if not task.done()]:
            for task in pending:
                task.cancel()
            await asyncio.sleep(0)
        driver.leading.fail_all(OperationError(ErrorCode.not_controller, "the process died"))
        if power:
            self.fs.crash(None if harsh else self._cluster.rng)

    def _dispatch(self, _info: ConnectionInfo, frame: memoryview) -> Any:
        assert self.quorum is not None
        self.requests[ApiKey(parse_request_header(frame).api_key)] += 1
        return dispatch(self.quorum, frame)


class RaftCluster:
    """Some voters and observers in one simulation."""

    def __init__(
        self,
        loop: VirtualTimeLoop,
        rng: random.Random,
        *,
        voters: int = 3,
        observers: int = 0,
        settings: MetadataLogSettings = SETTINGS,
        kraft: KraftSettings | None = None,
        auto_join: bool = False,
        scrub: ScrubSettings | None = None,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.network = SimulatedNetwork(loop, random.Random(rng.getrandbits(64)))
        nodes = tuple(voter(node_id) for node_id in range(1, voters + 1))
        bootstrap = tuple(node.endpoints[0] for node in nodes)
        self.replicas: dict[int, RaftReplica] = {}
        for node_id in range(1, voters + observers + 1):
            self.network.host(host_of(node_id))
            endpoints = voter(node_id).endpoints
            options = QuorumOptions(
                log=settings,
                kraft=kraft or KraftSettings(),
                endpoints=endpoints,
                bootstrap=bootstrap,
                auto_join=auto_join,
                scrub=scrub or ScrubSettings(),
            )
            replica = self.replicas[node_id] = RaftReplica(self, node_id, options)
            format_replica(replica.fs, node_id, nodes if node_id <= voters else ())
        self.next_topic = 0
        # Topics whose creation was acknowledged.
        self.acknowledged: list[str] = []

    @property
    def running(self) -> list[RaftReplica]:
        """The replicas that are up."""
        return [replica for replica in self.replicas.values() if replica.quorum is not None]

    async def start(self) -> None:
        """Start everybody."""
        for replica in self.replicas.values():
            await replica.start()

    async def stop(self) -> None:
        """Stop everybody."""
        for replica in self.replicas.values():
            await replica.stop()

    def maybe_active(self) -> RaftReplica | None:
        """Return the replica that takes appends in the newest epoch, if there is one."""
        active = [replica for replica in self.running if replica.quorum and replica.quorum.is_active]
        return max(active, key=lambda replica: replica.quorum.leader_epoch if replica.quorum else 0, default=None)

    async def wait_active(self) -> RaftReplica:
        """Wait for an active controller."""
        await self.wait(lambda: self.maybe_active() is not None)
        active = self.maybe_active()
        assert active is not None
        return active

    async def wait(self, condition: Callable[[], bool], timeout_s: float = 60) -> None:
        """Wait until something holds. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.005)
                for replica in self.running:
                    if replica.quorum is not None and replica.quorum.failure is not None:
                        raise replica.quorum.failure

    async def create_topics(self, count: int, *, pause_s: float = 0) -> int:
        """Create topics one after the other wherever a controller is active; return how many were acknowledged."""
        acknowledged = 0
        for _ in range(count):
            replica = await self.wait_active()
            assert replica.quorum is not None
            self.next_topic += 1
            name = f"topic-{self.next_topic}"
            try:
                await replica.quorum.append(new_topic(name, self.next_topic), timeout_ms=5000)
            except OperationError:
                continue
            self.acknowledged.append(name)
            acknowledged += 1
            await asyncio.sleep(self.rng.uniform(0, pause_s))
        return acknowledged

    async def settle(self) -> None:
        """Wait until all running replicas have the image of the active one."""

        def level() -> bool:
            active = self.maybe_active()
            if active is None or active.quorum is None:
                return False
            core = active.quorum.core
            if core.high_watermark != active.quorum.high_watermark:
                return False
            images = [replica.quorum.image for replica in self.running if replica.quorum]
            return all(image == active.quorum.image for image in images)

        await self.wait(level)

    def everybody_knows(self, *voters: VoterNode) -> bool:
        """Whether exactly these are the voters, for all who run."""
        return all(replica.quorum.voters == voters for replica in self.running if replica.quorum)

    def check(self) -> None:
        """No acknowledged append is lost, and every replica published the same images in the same order."""
        by_offset: dict[int, MetadataImage] = {}
        for replica in self.running:
            assert replica.quorum is not None
            assert replica.quorum.failure is None
            missing = [name for name in self.acknowledged if name not in replica.quorum.image.topics.by_name]
            assert not missing, f"node {replica.node_id} lost {missing}"
            offsets = [image.offset for image in replica.published]
            assert offsets == sorted(set(offsets)), f"node {replica.node_id} published out of order"
            for image in replica.published:
                assert by_offset.setdefault(image.offset, image) == image


def dispatch(quorum: RaftQuorum, frame: memoryview) -> Any:
    """Answer a frame as a controller listener does, as far as the quorum serves it."""
    header = parse_request_header(frame)
    key, version = ApiKey(header.api_key), header.api_version
    if key is ApiKey.API_VERSIONS:
        return [pack_response(key, version, header.correlation_id, encode_response(_api_versions(version)))]
    body = read_request(key, version, frame, header.body_offset)
    answer = asyncio.ensure_future(quorum.handle(key, version, body, listener="CONTROLLER"))
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def pass_on(answer: asyncio.Future[Any]) -> None:
        if not done.done() and not answer.cancelled():
            payload = encode_response(answer.result())
            done.set_result([pack_response(key, version, header.correlation_id, payload)])

    answer.add_done_callback(pass_on)
    done.add_done_callback(lambda done: answer.cancel() if done.cancelled() else None)
    return done


def _api_versions(version: int) -> Any:
    types = response_types(ApiKey.API_VERSIONS, version)
    return types.message(
        error_code=ErrorCode.none,
        throttle_time=0,
        api_keys=[
            types.new("ApiVersion", api_key=key, min_version=SPECS[key].min_version, max_version=SPECS[key].max_version)
            for key in SERVED
        ],
        supported_features=[types.new("SupportedFeatureKey", name="kraft.version", min_version=0, max_version=1)],
        finalized_features_epoch=0,
        finalized_features=[],
        zk_migration_ready=False,
    )


def run_cluster(rng: random.Random, main: Callable[[RaftCluster], Awaitable[None]], **options: Any) -> None:
    """Run a test with a cluster that is started before and stopped after it."""
    loop = VirtualTimeLoop()

    async def wrapped() -> None:
        cluster = RaftCluster(loop, rng, **options)
        await cluster.start()
        try:
            await main(cluster)
        finally:
            await cluster.stop()

    loop.run(wrapped())
