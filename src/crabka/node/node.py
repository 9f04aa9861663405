"""A node: its part of the metadata quorum, and on it the roles of a controller, a broker, or both.

Start: lock the log dirs → bind the controller listeners → open the metadata log and take part in the quorum →
controller → broker (see `BrokerService`). Stop is the reverse: the broker hands over what it leads and closes its logs
while the controller of the same node still works, then the quorum is left. What cannot be survived resolves `failed`:
the metadata log or the last log dir is lost, or an invariant is broken.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from crabka.broker.healing.metrics import collect_scrub
from crabka.broker.lifecycle.metrics import collect_cuts, render_metrics
from crabka.broker.lifecycle.service import BrokerService
from crabka.broker.lifecycle.side_port import SidePort
from crabka.broker.logdirs.metrics import collect_log_dirs, collect_moves
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.broker.tiering.metrics import collect_tier
from crabka.clients.security.node_security import NodeSecurity
from crabka.controller.service import ControllerService
from crabka.errors import ConfigError, CrabkaError, InvariantError, StorageError
from crabka.kraft.voters import VoterEndpoint
from crabka.log.cleaner.cleaner import CleanerStats
from crabka.log.dirs.log_dir import LogDir
from crabka.log.dirs.log_manager import LogManager
from crabka.log.healing.scrub_settings import ScrubSettings
from crabka.metadata.security import ScramImage
from crabka.net.descriptor_guard import DescriptorGuard
from crabka.node.listeners import NodeListeners
from crabka.node.quorum_metrics import collect_quorum
from crabka.quorum.raft.options import quorum_options
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.storage import read_meta_properties
from crabka.runtime.task_scope import TaskScope
from crabka.security.quotas.table import CONNECTION_CREATION_RATE
from crabka.security.quotas.windows import WindowSettings
from crabka.serving.access.access import Access
from crabka.serving.access.audit import AuditLog
from crabka.serving.access.feed import AclFeed, make_authorizer
from crabka.serving.quotas import ClientQuotas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.core import Metric

    from crabka.broker.context import BrokerContext
    from crabka.config.server import ServerConfig
    from crabka.metadata.cluster import Endpoint
    from crabka.metadata.image import MetadataImage
    from crabka.net.dispatch import ConnectionInfo
    from crabka.ports import Runtime

logger = logging.getLogger(__name__)


class Node:
    """One node. `start` once, `stop` once; `failed` resolves if it cannot go on."""

    def __init__(self, config: ServerConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._tasks = TaskScope(on_failure=self._on_task_failure)
        # A connection awaits the tasks of its requests, and reports what fails.
        self._requests = TaskScope(on_failure=self._on_request_failure)
        self._logs = LogManager(
            runtime,
            list(config.log_dirs),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            slow_append_ms=config.crabka_slow_append_ms,
            tiering=config.remote_log_storage_system_enable,
        )
        # Locked by itself only if it is no log dir as well.
        self._metadata_dir = LogDir(runtime.fs, config.metadata_log_dir, self._logs.cuts)
        self._security = NodeSecurity.load(config)
        limit, descriptors = runtime.open_file_limit, self._logs.descriptors
        self._listeners = NodeListeners(
            config,
            runtime.network,
            runtime.clock,
            client_guard=DescriptorGuard(limit, lambda: descriptors.unclaimed),
            controller_guard=DescriptorGuard(limit, lambda: descriptors.unclaimed // 2),
            scram=self._scram,
            fs=runtime.fs,
        )
        windows = WindowSettings(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self._quotas = ClientQuotas(runtime.clock, windows)
        self._quorum: RaftQuorum | None = None
        self._controller: ControllerService | None = None
        self._broker: BrokerService | None = None
        self._authorizer = make_authorizer(config)
        self._acls: AclFeed | None = None
        self._serving = False
        self._is_stopped = False
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def context(self) -> BrokerContext:
        """Return what the handlers of the broker share. Only a broker that was started has one."""
        if self._broker is None:
            raise RuntimeError("the node was not started, or is no broker")
        return self._broker.context

    @property
    def quorum(self) -> RaftQuorum:
        """Return this node's replica of the metadata. Only a node that was started has one."""
        if self._quorum is None:
            raise RuntimeError("the node was not started")
        return self._quorum

    @property
    def controller(self) -> ControllerService | None:
        """Return the controller of this node, None if it does not have that role."""
        return self._controller

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port of the first client listener, empty for a node that is only a controller."""
        return self._listeners.bootstrap_servers

    @property
    def bootstrap_controllers(self) -> str:
        """Return host:port of the first controller listener, empty for a node that is only a broker."""
        return self._listeners.bootstrap_controllers

    @property
    def listeners(self) -> NodeListeners:
        """Return the sockets of the node, where the requests of clients can be intercepted."""
        return self._listeners

    @property
    def open_file_count(self) -> int:
        """Return how many files the node keeps open for its partitions, without connections."""
        descriptors = self._logs.descriptors
        return min(len(self._logs), descriptors.active.capacity) + descriptors.sealed_capacity

    @property
    def side_port_address(self) -> str | None:
        """Return host:port of health and metrics, None if they are not served."""
        return self._listeners.side_port_address

    async def start(self) -> None:
        """Start to serve. Raises ConfigError, StorageError, CorruptDataError; the node is stopped again then.

        A node that fails meanwhile raises what it failed of: a start waits for the quorum, the controller and its own
        heartbeats, and none of them comes any more.
        """
        starting = asyncio.ensure_future(self._start())
        try:
            await asyncio.wait((starting, self.failed), return_when=asyncio.FIRST_COMPLETED)
            await (starting if starting.done() else self.failed)
        except BaseException:
            starting.cancel()
            await asyncio.wait((starting,))
            if not starting.cancelled():
                starting.exception()
            await self.stop()
            raise

    async def _start(self) -> None:
        config = self._config
        # Before the metadata is touched: it must not be written by two processes.
        self._lock_dirs()
        cluster_id = read_meta_properties(self._runtime.fs, config.metadata_log_dir).cluster_id
        self._check_identities(cluster_id)
        endpoints: list[Endpoint] = []
        if config.is_controller:
            endpoints = await self._listeners.bind_controller(self._on_controller_connection_closed)
        quorum = self._quorum = await self._open_quorum(endpoints)
        quorum.on_failure = self._fail
        access = self._open_access(quorum)
        if config.is_controller:
            controller = self._controller = ControllerService(
                config,
                self._runtime,
                quorum,
                cluster_id=cluster_id,
                spawn=self._tasks.start,
                serve=self._requests.start,
                on_broken_invariant=self._fail,
                access=access,
                security=self._security.controllers,
            )
            await controller.start(endpoints)
            self._listeners.serve_controllers(controller.dispatcher)
        if config.is_broker:
            await self._start_broker(quorum, cluster_id, access)
        await self._bind_side_port()
        self._tasks.start(self._listeners.watch_certificates())
        self._warn_of_unenforced(quorum.image)
        self._serving = True

    async def _open_quorum(self, endpoints: Sequence[Endpoint]) -> RaftQuorum:
        voter_endpoints = [VoterEndpoint(each.name, each.host, each.port) for each in endpoints]
        return await RaftQuorum.open(
            self._runtime,
            self._config.metadata_log_dir,
            self._config.node_id,
            quorum_options(self._config, voter_endpoints, self._security.controllers),
        )

    def _open_access(self, quorum: RaftQuorum) -> Access | None:
        """Let the authorizer follow the ACLs, if there is one; it is ready when the metadata is."""
        if self._authorizer is None:
            return None
        self._acls = AclFeed(self._authorizer, quorum)
        self._tasks.start(self._acls.load_when_possible())
        return Access(self._authorizer, AuditLog(self._runtime.clock))

    async def _start_broker(self, quorum: RaftQuorum, cluster_id: str, access: Access | None) -> None:
        broker = self._broker = BrokerService(
            self._config,
            self._runtime,
            quorum,
            self._logs,
            cluster_id=cluster_id,
            local_controller=self._controller,
            security=self._security,
            spawn=self._tasks.start,
            serve=self._requests.start,
            fail=self._fail,
            access=access,
        )
        quorum.follow_scrub_settings(lambda: ScrubSettings.from_config(broker.context.config))
        await broker.load()
        if self._acls is not None:
            await self._acls.load()
        await broker.start(await self._listeners.bind())
        self._listeners.serve(broker.dispatcher)
        self._limit_clients(quorum.image)
        quorum.subscribe(lambda _delta, image: self._limit_clients(image))

    def _limit_clients(self, image: MetadataImage) -> None:
        if self._quotas.take(image.client_quotas.entities):
            self._listeners.limit(None if self._quotas.is_empty else self._quotas.gate)

    async def _bind_side_port(self) -> None:
        await self._listeners.bind_side_port(SidePort(render_metrics=self._metrics(), is_ready=lambda: self._serving))

    def _metrics(self) -> Callable[[], bytes]:
        quorum = self._quorum
        assert quorum is not None  # noqa: S101 - it was opened before the side port
        if self._broker is not None:
            context = self._broker.context
            more = functools.partial(_collect_more, context, quorum)
            return functools.partial(render_metrics, context.metrics, context.partitions, context.cleaner.stats, more)
        assert self._controller is not None  # noqa: S101 - a node has a role
        more = functools.partial(collect_quorum, quorum)
        metrics = self._controller.context.metrics
        return functools.partial(render_metrics, metrics, PartitionRegistry(), CleanerStats(), more)

    async def stop(self) -> None:
        """Stop cleanly: after this a start needs no recovery. Stopping twice is allowed."""
        if self._is_stopped:
            return
        self._is_stopped = True
        was_serving, self._serving = self._serving, False
        broker, controller, quorum = self._broker, self._controller, self._quorum
        self._quorum = None
        # From the last to the first; a step that fails does not keep those after it from being done.
        async with AsyncExitStack() as steps:
            # Locked until nothing is written any more: the quorum writes to its dir when it is left.
            steps.callback(self._metadata_dir.close)
            steps.callback(self._logs.unlock)
            steps.push_async_callback(self._listeners.close_controllers)
            if quorum is not None:
                steps.push_async_callback(quorum.close)
            steps.push_async_callback(self._close_logs)
            steps.push_async_callback(self._tasks.close)
            steps.push_async_callback(self._requests.close)
            if controller is not None:
                steps.push_async_callback(controller.close)
            if broker is not None:
                steps.push_async_callback(broker.close)
            steps.push_async_callback(self._listeners.close_clients)
            if broker is not None:
                steps.callback(broker.release_waiters)
                if was_serving and not self.failed.done():
                    steps.push_async_callback(broker.retire)

    async def _close_logs(self) -> None:
        # Threads go on with what cancelled tasks gave them: recovery, cleaning, checkpoints.
        await self._runtime.threads.wait_submitted()
        if self._broker is not None and self._broker.is_loaded:
            await self._logs.close(self._broker.epoch)
        else:
            # Logs that were not opened may need recovery: they must not get the mark of a clean stop.
            await self._logs.abandon()

    def _scram(self) -> ScramImage:
        return ScramImage() if self._quorum is None else self._quorum.image.scram

    def _lock_dirs(self) -> None:
        self._logs.lock()
        if self._config.metadata_log_dir not in self._config.log_dirs:
            try:
                self._metadata_dir.open()
            except OSError as error:
                raise StorageError(self._metadata_dir.path, f"cannot be locked: {error}") from error

    def _check_identities(self, cluster_id: str) -> None:
        """All dirs are of one node in one cluster (Kafka: MetaPropertiesEnsemble). Raises ConfigError."""
        for log_dir in self._logs.dirs:
            found = log_dir.properties
            if found is not None and (found.cluster_id, found.node_id) != (cluster_id, self._config.node_id):
                raise ConfigError(
                    f"{log_dir.path} belongs to node {found.node_id} of cluster {found.cluster_id}, "
                    f"not to node {self._config.node_id} of cluster {cluster_id}"
                )

    def _on_controller_connection_closed(self, connection: ConnectionInfo) -> None:
        if self._controller is not None:
            self._controller.connection_closed(connection)

    def _on_task_failure(self, failure: BaseException) -> None:
        # Those who need the outcome get it as well; often nothing waits for it.
        logger.error("A task of the node failed: %r", failure, exc_info=failure)
        self._on_request_failure(failure)

    def _on_request_failure(self, failure: BaseException) -> None:
        # Any other failure costs the connection, not the node.
        if isinstance(failure, InvariantError):
            self._fail(failure)

    def _fail(self, error: CrabkaError) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)
            # A caller that waits gets it all the same.
            self.failed.exception()

    def _warn_of_unenforced(self, image: MetadataImage) -> None:
        stored = {
            "ACLs": 0 if self._authorizer is not None else len(image.acls.entries),
            "quotas on new connections": image.client_quotas.count_of(CONNECTION_CREATION_RATE),
        }
        present = [f"{count} {name}" for name, count in stored.items() if count]
        if present:
            logger.warning("The metadata holds %s: they are kept, but not enforced", ", ".join(present))


def _collect_more(context: BrokerContext, quorum: RaftQuorum) -> Iterator[Metric]:
    yield from collect_quorum(quorum)
    yield from collect_log_dirs(context.logs.dirs)
    yield from collect_cuts(context.logs.cuts, sum(log.durability.loss is not None for log in context.logs))
    yield from collect_moves(context.moves)
    yield from collect_scrub(context.scrubber)
    if context.tiering is not None:
        yield from collect_tier(context.tiering.manager.tools.stats, context.remote_reads)
