"""A node: opens metadata and logs, registers, serves, and stops in order.

Start: metadata log → local logs (recovered) → listeners bound → registration (fenced) → partitions opened and led →
unfenced → requests served. Stop: no more connections → requests answered → logs closed cleanly → metadata closed.
What cannot be survived resolves `failed`: the metadata log or the last log dir is lost.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Any

from crabka.broker.config_view import EffectiveConfigs
from crabka.broker.context import BrokerContext
from crabka.broker.dispatch import Dispatcher
from crabka.broker.duties import duties_of, repeat
from crabka.broker.fetch_sessions import FetchSessionCache
from crabka.broker.groups.coordinator import GroupCoordinator
from crabka.broker.leader_append import LeaderAppender
from crabka.broker.listeners import NodeListeners
from crabka.broker.metadata_publisher import MetadataPublisher
from crabka.broker.metadata_writer import MetadataWriter
from crabka.broker.metrics import NodeMetrics, render_metrics
from crabka.broker.partitions import PartitionRegistry
from crabka.broker.producer_ids import ProducerIdAllocator
from crabka.broker.registration import NodeRegistrar, tell_directories, tell_failed_directories
from crabka.broker.side_port import SidePort
from crabka.broker.transactions.coordinator import TransactionCoordinator
from crabka.broker.txn_markers import LocalMarkerWriter
from crabka.errors import ConfigError, CrabkaError, InvariantError, StorageError
from crabka.log.cleaner import CleanerSettings, LogCleaner
from crabka.log.log_dir import LogDir
from crabka.log.log_manager import LogManager
from crabka.log.segment import MAX_CACHED_HANDLES
from crabka.metadata.configs import ConfigResourceType
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.standalone import StandaloneQuorum
from crabka.quorum.storage import read_meta_properties
from crabka.runtime.task_scope import TaskScope

if TYPE_CHECKING:
    import uuid
    from collections.abc import Coroutine

    from crabka.config.server import ServerConfig
    from crabka.ids import TopicPartition
    from crabka.metadata.delta import MetadataDelta
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime

log = logging.getLogger(__name__)


class Node:
    """One combined node. `start` once, `stop` once; `failed` resolves if it cannot go on."""

    def __init__(self, config: ServerConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        # A request's failure is told to its connection, which awaits the task.
        self._tasks = TaskScope(on_failure=self._on_task_failure)
        self._partitions = PartitionRegistry()
        self._logs = LogManager(
            runtime,
            list(config.log_dirs),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            slow_append_ms=config.crabka_slow_append_ms,
        )
        # Locked by itself only if it is no log dir as well.
        self._metadata_dir = LogDir(runtime.fs, config.metadata_log_dir)
        self._listeners = NodeListeners(config, runtime.network)
        self._configs = EffectiveConfigs(config)
        self._quorum: StandaloneQuorum | None = None
        self._context: BrokerContext | None = None
        self._broker_epoch = -1
        self._serving = False
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def context(self) -> BrokerContext:
        """Return what the handlers share. Only a node that was started has one."""
        if self._context is None:
            raise RuntimeError("the node was not started")
        return self._context

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port of the first client listener."""
        return self._listeners.bootstrap_servers

    @property
    def open_file_count(self) -> int:
        """Return how many files the node keeps open for its partitions, without connections."""
        return len(self._logs) + MAX_CACHED_HANDLES

    @property
    def side_port_address(self) -> str | None:
        """Return host:port of health and metrics, None if they are not served."""
        return self._listeners.side_port_address

    async def start(self) -> None:
        """Start to serve. Raises ConfigError, StorageError, CorruptDataError; the node is stopped again then."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config, runtime = self._config, self._runtime
        _refuse_what_is_not_built(config)
        self._logs.subscribe_failures(self._on_dir_failure)
        # Before the metadata is touched: it must not be written by two processes.
        self._lock_dirs()
        quorum = self._quorum = await StandaloneQuorum.open(
            runtime,
            config.metadata_log_dir,
            config.node_id,
            settings=MetadataLogSettings.from_config(config),
            min_insync_replicas=config.min_insync_replicas,
        )
        quorum.on_failure = self._fail
        await self._logs.load(lambda topic: self._configs.topic(quorum.image, topic), self._is_stray)
        self._require_online_dirs()
        context = self._context = self._build_context(quorum)
        dispatcher = Dispatcher(context)
        endpoints = await self._listeners.bind(dispatcher)
        await self._listeners.bind_side_port(
            SidePort(
                render_metrics=functools.partial(
                    render_metrics, context.metrics, self._partitions, context.cleaner.stats
                ),
                is_ready=lambda: self._serving,
            )
        )
        registrar = NodeRegistrar(config, runtime, quorum, context.metadata_writer)
        self._broker_epoch = await registrar.register(endpoints, self._logs.online_directory_ids)
        context.producer_ids.broker_epoch = self._broker_epoch
        publisher = MetadataPublisher(config.node_id, self._logs, self._partitions, topic_config=self._configs.topic)
        publisher.publish_all(quorum.image)
        quorum.subscribe(publisher.on_metadata)
        quorum.subscribe(functools.partial(self._on_metadata, context))
        context.groups.start(quorum.image)
        quorum.subscribe(context.groups.on_metadata)
        context.transactions.start(quorum.image)
        quorum.subscribe(context.transactions.on_metadata)
        await registrar.unfence()
        await tell_directories(context.metadata_writer, config.node_id, self._logs, self._partitions)
        # A dir may have failed since the registration.
        await tell_failed_directories(context.metadata_writer, config.node_id, self._logs)
        for duty in duties_of(context):
            self._tasks.start(repeat(context, duty))
        self._warn_of_unenforced(quorum.image)
        self._serving = True
        dispatcher.open_gate()

    def _build_context(self, quorum: StandaloneQuorum) -> BrokerContext:
        config, runtime = self._config, self._runtime
        writer = MetadataWriter(quorum)
        producer_ids = ProducerIdAllocator(writer, node_id=config.node_id)
        groups = GroupCoordinator(
            runtime, self._logs, self._partitions, spawn=self._tasks.start, config=lambda: self.context.config
        )
        appender = LeaderAppender(runtime, self._logs, self._tasks.start)
        markers = LocalMarkerWriter(
            runtime.clock, self._partitions, groups, appender, config=lambda: self.context.config
        )
        return BrokerContext(
            static_config=config,
            config=self._configs.server(quorum.image),
            runtime=runtime,
            cluster_id=read_meta_properties(runtime.fs, config.metadata_log_dir).cluster_id,
            quorum=quorum,
            metadata_writer=writer,
            logs=self._logs,
            partitions=self._partitions,
            fetch_sessions=FetchSessionCache(
                max_sessions=config.max_incremental_fetch_session_cache_slots, rng=runtime.rng
            ),
            producer_ids=producer_ids,
            groups=groups,
            appender=appender,
            markers=markers,
            transactions=TransactionCoordinator(
                runtime,
                self._logs,
                self._partitions,
                producer_ids=producer_ids,
                markers=markers,
                spawn=self._tasks.start,
                config=lambda: self.context.config,
                image=lambda: quorum.image,
            ),
            metrics=NodeMetrics(),
            cleaner=LogCleaner(runtime, self._logs, self._cleaner_settings),
            spawn=self._tasks.start,
            on_broken_invariant=self._fail,
        )

    def _cleaner_settings(self) -> CleanerSettings:
        config = self.context.config
        return CleanerSettings(
            enabled=config.log_cleaner_enable,
            dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        )

    async def stop(self) -> None:
        """Stop cleanly: after this a start needs no recovery. Stopping twice is allowed."""
        self._serving = False
        # Long polls are answered now, with what there is: nobody waits for them.
        for partition in self._partitions:
            partition.release_waiters()
        if self._context is not None:
            self._context.groups.close()
            self._context.transactions.close()
        await self._listeners.close()
        await self._tasks.close()
        quorum, self._quorum = self._quorum, None
        if quorum is None:
            self._logs.unlock()
        else:
            await self._logs.shutdown(self._broker_epoch)
            await quorum.close()
        self._metadata_dir.close()

    def _lock_dirs(self) -> None:
        self._logs.lock()
        if self._config.metadata_log_dir not in self._config.log_dirs:
            try:
                self._metadata_dir.open()
            except OSError as error:
                raise StorageError(self._metadata_dir.path, f"cannot be locked: {error}") from error

    def _on_metadata(self, context: BrokerContext, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(resource.resource_type == ConfigResourceType.BROKER for resource in delta.configs_changed):
            context.config = self._configs.server(image)
        if len(self._config.log_dirs) > 1 and self._serving and (delta.topics_created or delta.topics_changed):
            self._in_background(
                tell_directories(context.metadata_writer, self._config.node_id, self._logs, self._partitions)
            )

    def _on_dir_failure(self, log_dir: str, _lost: list[TopicPartition]) -> None:
        lost = self._partitions.take_offline(log_dir)
        if log_dir == self._config.metadata_log_dir:
            self._fail(StorageError(log_dir, "the log dir of the metadata is lost"))
        elif not self._logs.online_dirs:
            self._fail(StorageError(log_dir, "the last log dir is lost"))
        elif self._serving:
            writer = self.context.metadata_writer
            self._in_background(tell_failed_directories(writer, self._config.node_id, self._logs, lost))

    def _in_background(self, change: Coroutine[Any, Any, None]) -> None:
        """Run a change of the metadata that nobody waits for. If it fails the quorum is dead, and `failed` tells."""

        async def carry_out() -> None:
            try:
                await change
            except CrabkaError as error:
                log.warning("Cannot record the state of the log dirs: %s", error)

        self._tasks.start(carry_out())

    def _on_task_failure(self, failure: BaseException) -> None:
        # Any other failure belongs to whoever awaits the task: it costs a connection, not the node.
        if isinstance(failure, InvariantError):
            self._fail(failure)

    def _fail(self, error: CrabkaError) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)
            # Whoever waits gets it all the same; nobody has to wait.
            self.failed.exception()

    def _require_online_dirs(self) -> None:
        offline = self._logs.offline_dirs
        if not self._logs.online_dirs or self._config.metadata_log_dir in offline:
            reasons = "; ".join(f"{path}: {self._logs.offline_reason(path)}" for path in offline)
            raise ConfigError(f"no usable log dir: {reasons}")

    def _is_stray(self, topic_partition: TopicPartition, topic_id: uuid.UUID | None) -> bool:
        assert self._quorum is not None  # noqa: S101 - logs are loaded after the metadata
        topic = self._quorum.image.topics.by_name.get(topic_partition.topic)
        partition = topic.partitions.get(topic_partition.partition) if topic is not None else None
        if topic is None or partition is None or self._config.node_id not in partition.replicas:
            return True
        return topic_id is not None and topic_id != topic.topic_id

    @staticmethod
    def _warn_of_unenforced(image: MetadataImage) -> None:
        stored = {
            "ACLs": len(image.acls.entries),
            "SCRAM credentials": len(image.scram.credentials),
            "client quotas": len(image.client_quotas.entities),
        }
        present = [f"{count} {name}" for name, count in stored.items() if count]
        if present:
            log.warning("The metadata holds %s: they are kept, but not enforced", ", ".join(present))


def _refuse_what_is_not_built(config: ServerConfig) -> None:
    """Raise ConfigError for settings whose promise could not be kept."""
    if config.remote_log_storage_system_enable:
        raise ConfigError("remote.log.storage.system.enable is set, but Crabka has no tiered storage yet: remove it")
    if not (config.is_broker and config.is_controller):
        raise ConfigError("process.roles must be broker,controller: Crabka runs as one combined node only")
