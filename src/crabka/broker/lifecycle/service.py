"""The broker role of a node: its logs and partitions, what it answers, and its life with the controller.

Start: metadata caught up → local logs opened (recovered) → listeners bound by the node → registration (fenced) →
partitions opened → unfenced → requests served. Stop: leaderships handed over → no more connections → requests
answered → fetchers stopped; the node closes the logs.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Final

from crabka.broker.api_table import TABLE
from crabka.broker.controller_link.channel import ControllerChannel
from crabka.broker.controller_link.directory_reports import DirectoryReports
from crabka.broker.controller_link.forwarding import Forwarder
from crabka.broker.controller_link.identity import BrokerIdentity
from crabka.broker.controller_link.replica_losses import ReplicaLosses
from crabka.broker.guards.table import GUARDS
from crabka.broker.lifecycle.assembly import BrokerParts, build_context, build_publisher, build_replica_host
from crabka.broker.lifecycle.duties import duties_of, repeat
from crabka.broker.lifecycle.lifecycle import BrokerLifecycle, StartingBroker
from crabka.broker.lifecycle.metadata_pipeline import MetadataPipeline
from crabka.broker.logdirs.assembly import build_resolution, take_move_rate
from crabka.errors import ConfigError, StorageError
from crabka.ids import DIRECTORY_LOST
from crabka.metadata.configs import ConfigResourceType
from crabka.metadata.delta import MetadataChanges, MetadataDelta
from crabka.metadata.features import CORDONED_DIRECTORIES_LEVEL
from crabka.serving.access.guard import guarded_load
from crabka.serving.config_view import EffectiveConfigs
from crabka.serving.dispatch import Dispatcher
from crabka.serving.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.controller_link.channel import LocalController
    from crabka.broker.lifecycle.metadata_publisher import MetadataPublisher
    from crabka.broker.partition.partition import Partition
    from crabka.clients.security.node_security import NodeSecurity
    from crabka.config.server import ServerConfig
    from crabka.errors import CrabkaError
    from crabka.ids import TopicPartition
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.cluster import Endpoint
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime, Spawn
    from crabka.quorum.raft.quorum import RaftQuorum
    from crabka.serving.access.access import Access

# How often partitions are tried again that had no descriptor.
RETRY_INTERVAL_MS: Final = 5000


class BrokerService:
    """One broker: `load`, `start` with its endpoints, `retire` and `close`."""

    def __init__(
        self,
        config: ServerConfig,
        runtime: Runtime,
        quorum: RaftQuorum,
        logs: LogManager,
        *,
        cluster_id: str,
        local_controller: LocalController | None,
        security: NodeSecurity,
        spawn: Spawn,
        serve: Spawn,
        fail: Callable[[CrabkaError], None],
        access: Access | None = None,
    ) -> None:
        """`spawn` runs what the broker does by itself, `serve` requests, whose failures their connections report."""
        self._config = config
        self._runtime = runtime
        self._quorum = quorum
        self._logs = logs
        self._spawn = spawn
        self._fail = fail
        self._configs = EffectiveConfigs(config)
        self._identity = BrokerIdentity(config.node_id)
        self._channel = ControllerChannel(
            runtime,
            quorum,
            node_id=config.node_id,
            timeout_ms=config.controller_socket_timeout_ms,
            local=local_controller,
            security=security.controllers,
        )
        self._lifecycle = BrokerLifecycle(
            config, runtime, self._channel, self._identity, metadata_offset=lambda: quorum.image.offset, fail=fail
        )
        self._parts = BrokerParts(
            config=config,
            runtime=runtime,
            cluster_id=cluster_id,
            identity=self._identity,
            quorum=quorum,
            controller=self._channel,
            logs=logs,
            security=security.brokers,
            spawn=spawn,
            serve=serve,
            fail=fail,
        )
        self.context = build_context(self._parts)
        self.context.access = access
        self._directories = DirectoryReports(self._channel, self._identity, logs, place_of=self.context.moves.place_of)
        self.context.rebuilder.directories = self._directories
        self._losses = ReplicaLosses(
            logs, self._identity, image=lambda: quorum.image, ask=self._directories.ask, spawn=spawn
        )
        self._replica_host = build_replica_host(self._parts, self.context)
        self.dispatcher = Dispatcher(
            self.context,
            TABLE,
            forward=Forwarder(self._channel, serve),
            load=guarded_load(TABLE, GUARDS, access, refuse),
        )
        self._serving = False
        # Partitions whose log dir failed before the controller could be notified.
        self._lost_early: list[Partition] = []
        self._pipeline: MetadataPipeline | None = None
        # Whether the logs are open, so that a stop may close them cleanly.
        self.is_loaded = False

    @property
    def epoch(self) -> int:
        """The epoch of the present registration, -1 before it."""
        return self._identity.broker_epoch

    async def load(self) -> None:
        """Catch up with the metadata and open the logs. Raises ConfigError, StorageError, CorruptDataError."""
        quorum = self._quorum
        self._logs.subscribe_failures(self._on_dir_failure)
        await quorum.wait_caught_up()
        self._take_settings(quorum.image)
        # Once for a topic, not for each of its partitions.
        topic_config = functools.cache(functools.partial(self._configs.topic, quorum.image))
        resolution = build_resolution(self._runtime, self._logs, self._config, quorum.image)
        await self._logs.load(topic_config, resolution.settle)
        self.is_loaded = True
        self._require_online_dirs()

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Register, take over the partitions, be unfenced: then `dispatcher` may be asked. Raises ConfigError."""
        context, quorum = self.context, self._quorum
        await self._lifecycle.register(
            StartingBroker(
                cluster_id=context.cluster_id,
                incarnation_id=self._runtime.new_uuid(),
                endpoints=endpoints,
                log_dirs=self._logs.online_directory_ids,
                previous_epoch=self._logs.previous_broker_epoch,
            )
        )
        self._lifecycle.start()
        # What the registration changed must be known here before anything is led.
        await self._wait_for(self._is_registered)
        # And nothing that was lost may be led.
        await self._losses.report()
        publisher = build_publisher(self._parts, context, self._replica_host, self._configs.topic)
        pipeline = self._pipeline = MetadataPipeline(
            prepare=publisher.preparation, finish=self._logs.removal.pending_renames, spawn=self._spawn
        )
        image = quorum.image
        quorum.subscribe(pipeline.on_metadata)
        # The settings may have changed since the logs were loaded, which can take long.
        self._take_settings(image)
        await publisher.publish_all(image)
        for listener in (
            publisher.on_metadata,
            context.auto_creation.on_metadata,
            context.brokers.on_metadata,
            self._on_metadata,
            self._losses.on_metadata,
        ):
            pipeline.subscribe(listener)
        context.groups.start(image)
        pipeline.subscribe(context.groups.on_metadata)
        context.transactions.start(image)
        pipeline.subscribe(context.transactions.on_metadata)
        pipeline.start()
        if context.remote_reads is not None:
            await context.remote_reads.open()
        await self._lifecycle.serve()
        await self._wait_for(lambda image: not image.cluster.brokers[self._config.node_id].fenced)
        must_report = len(self._config.log_dirs) > 1 or self._has_lost_replicas(quorum.image)
        if must_report and not await self._directories.report(quorum.image, context.partitions):
            self._spawn(self._directories.keep_reporting())
        self._serving = True
        context.moves.resume(self._logs.futures)
        if self._logs.offline_dirs:
            # Some may have failed since the registration.
            self._spawn(self._report_lost(self._lost_early))
        for duty in duties_of(context):
            self._spawn(repeat(context, duty))
        retry = functools.partial(self._retry_unopened, publisher, pipeline)
        self._spawn(repeat(context, ("partitions without a log", RETRY_INTERVAL_MS, retry)))
        self._spawn(context.scrubber.run())
        if context.tiering is not None:
            pipeline.subscribe(context.tiering.on_metadata)
            context.tiering.start(endpoints)

    async def _retry_unopened(
        self, publisher: MetadataPublisher, pipeline: MetadataPipeline, _context: BrokerContext
    ) -> None:
        """Open partitions that had no descriptor when they came here, as a change of the metadata that is empty.

        So it keeps its place among the changes that create and delete logs.
        """
        if publisher.has_unopened and pipeline.is_idle:
            publisher.retry_unopened()
            image = self._quorum.image
            done = pipeline.on_metadata(MetadataDelta(image), image)
            if done is not None:
                await done

    async def retire(self) -> None:
        """Hand over what this broker leads while it still serves."""
        if self.context.tiering is not None:
            self.context.tiering.manager.retire()
        if self._serving and self._config.controlled_shutdown_enable:
            await self._lifecycle.retire()

    def release_waiters(self) -> None:
        """Answer long polls with what there is."""
        self._serving = False
        for partition in self.context.partitions:
            partition.waiters.release()
        self.context.groups.close()
        self.context.transactions.close()

    async def close(self) -> None:
        """Stop talking to other nodes. The owner of the logs closes them."""
        if self._pipeline is not None:
            self._pipeline.close()
        if self.context.remote_reads is not None:
            self.context.remote_reads.close()
        if self.context.tiering is not None:
            await self.context.tiering.manager.close()
        await self.context.moves.close()
        await self.context.fetchers.close()
        await self._lifecycle.close()
        await self._channel.close()
        await self.context.brokers.close()

    async def _wait_for(self, condition: Callable[[MetadataImage], bool]) -> None:
        """Wait until the metadata that this node applied fulfils a condition."""
        if condition(self._quorum.image):
            return
        reached = asyncio.get_running_loop().create_future()

        def look(_delta: MetadataChanges, image: MetadataImage) -> None:
            if not reached.done() and condition(image):
                reached.set_result(None)

        unsubscribe = self._quorum.subscribe(look)
        try:
            await reached
        finally:
            unsubscribe()

    def _has_lost_replicas(self, image: MetadataImage) -> bool:
        """Return whether the metadata takes a replica for lost that is here and has lost nothing.

        A stop came between the loss of a replica that began anew and its return, or an operator removed its log. One
        that did lose records is left to `ReplicaLosses`.
        """
        node_id = self._config.node_id
        known = (image.topics.partition(each.topic, each.index) for each in self.context.partitions)
        return any(each is not None and each.directory_of(node_id) == DIRECTORY_LOST for each in known)

    def _is_registered(self, image: MetadataImage) -> bool:
        broker = image.cluster.brokers.get(self._config.node_id)
        return broker is not None and broker.epoch >= self.epoch

    def _take_settings(self, image: MetadataImage) -> None:
        self.context.config = self._configs.server(image)
        self._take_cordoned(image)
        self._replica_host.take_rate(image.configs, self._config.node_id)
        take_move_rate(self.context.moves, image.configs, self._config.node_id)

    def _on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        if any(resource.resource_type == ConfigResourceType.BROKER for resource in delta.configs_changed):
            self._take_settings(image)
            self.context.scrubber.settings_changed()
        elif delta.features_changed:
            self._take_cordoned(image)
        if len(self._config.log_dirs) > 1 and self._serving and (delta.topics_created or delta.topics_changed):
            changed = delta.topics_created | delta.topics_changed
            self._spawn(self._report(image, [each for each in self.context.partitions if each.topic_id in changed]))

    def _take_cordoned(self, image: MetadataImage) -> None:
        """Let cordoned log dirs take no new replicas, and notify the controller, which places them (KIP-1066)."""
        dirs = self._logs.dirs
        dirs.cordon(self.context.config.cordoned_log_dirs)
        supported = image.features.metadata_version >= CORDONED_DIRECTORIES_LEVEL
        self._lifecycle.cordon_directories(dirs.ids_of(dirs.cordoned) if supported else None)

    def _on_dir_failure(self, log_dir: str, _lost: list[TopicPartition]) -> None:
        lost = self.context.partitions.take_offline(log_dir)
        self.context.moves.on_dir_failure(log_dir)
        if self.context.tiering is not None:
            for partition in lost:
                self.context.tiering.manager.on_stop(partition, is_deleted=False)
        if log_dir == self._config.metadata_log_dir:
            self._fail(StorageError(log_dir, "the log dir of the metadata is lost"))
        elif not self._logs.online_dirs:
            self._fail(StorageError(log_dir, "the last log dir is lost"))
        elif self._serving:
            self._spawn(self._report_lost(lost))
            self._spawn(self._require_reported(log_dir))
        else:
            self._lost_early += lost

    async def _report(self, image: MetadataImage, partitions: Sequence[Partition]) -> None:
        if not await self._directories.report(image, partitions):
            await self._directories.keep_reporting()

    async def _report_lost(self, lost: Sequence[Partition]) -> None:
        for partition in lost:
            self.context.fetchers.unfollow(partition)
        await self._report(self._quorum.image, lost)
        self._report_lost_dirs()

    async def _require_reported(self, log_dir: str) -> None:
        """Stop the node unless the controller learns of a lost dir in time, so that others take over its replicas."""
        directory = self._logs.directory_id(log_dir)
        limit_ms = self._config.log_dir_failure_timeout_ms
        if directory is None:
            return
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._lifecycle.wait_acknowledged(directory)
        except TimeoutError:
            self._fail(
                StorageError(log_dir, f"it is lost, and the controller could not be notified within {limit_ms} ms")
            )

    def _report_lost_dirs(self) -> None:
        offline = [self._logs.directory_id(path) for path in self._logs.offline_dirs]
        known = [each for each in offline if each is not None]
        if known:
            self._lifecycle.lose_directories(known)

    def _require_online_dirs(self) -> None:
        offline = self._logs.offline_dirs
        if not self._logs.online_dirs or self._config.metadata_log_dir in offline:
            reasons = "; ".join(f"{path}: {self._logs.offline_reason(path)}" for path in offline)
            raise ConfigError(f"no usable log dir: {reasons}")
