"""Puts the parts of a broker together: which of them know which others is said here and nowhere else."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.broker.context import BrokerContext
from crabka.broker.controller_link.auto_create import AutoTopicCreation
from crabka.broker.controller_link.producer_ids import ProducerIdAllocator
from crabka.broker.fetch.sessions import FetchSessionCache
from crabka.broker.groups.coordinator import GroupCoordinator
from crabka.broker.healing.dir_files import DirFiles
from crabka.broker.healing.mender import RangeMender
from crabka.broker.healing.rebuilder import ReplicaRebuilder
from crabka.broker.healing.scrubber import LogScrubber
from crabka.broker.healing.sources import PartitionSources
from crabka.broker.inter_broker.connections import BrokerConnections
from crabka.broker.inter_broker.outboxes import OtherBrokers
from crabka.broker.lifecycle.metadata_publisher import MetadataPublisher
from crabka.broker.logdirs.assembly import build_moves
from crabka.broker.partition.leader_append import LeaderAppender
from crabka.broker.partition.partition import Partition
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.broker.replication.fetchers import ReplicaFetchers
from crabka.broker.replication.host import ReplicaHost
from crabka.broker.replication.isr_changes import IsrChanges
from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
from crabka.broker.transactions.cluster_markers import ClusterMarkerWriter
from crabka.broker.transactions.cluster_partition_adder import ClusterPartitionAdder
from crabka.broker.transactions.coordinator import TransactionCoordinator
from crabka.broker.transactions.local_markers import LocalMarkerWriter
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.log.cleaner.cleaner import CleanerSettings, LogCleaner
from crabka.log.healing.scrub_settings import ScrubSettings
from crabka.serving.metrics import NodeMetrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.controller_link.channel import ControllerRequests
    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.broker.tiering.read.reader import RemoteReads
    from crabka.clients.security.security import ClientSecurity
    from crabka.config.server import ServerConfig
    from crabka.config.topic import TopicConfig
    from crabka.errors import CrabkaError
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime, Spawn
    from crabka.quorum.raft.quorum import RaftQuorum


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """What a broker is given by its node."""

    config: ServerConfig
    runtime: Runtime
    cluster_id: str
    identity: BrokerIdentity
    quorum: RaftQuorum
    controller: ControllerRequests
    logs: LogManager
    # Of connections to other brokers.
    security: ClientSecurity
    # Runs what the broker does by itself.
    spawn: Spawn
    # Runs requests: their connections report failures.
    serve: Spawn
    fail: Callable[[CrabkaError], None]


def build_context(parts: BrokerParts) -> BrokerContext:
    """Make everything that the handlers share."""
    runtime, logs, spawn = parts.runtime, parts.logs, parts.spawn

    def config() -> ServerConfig:
        return context.config

    def image() -> MetadataImage:
        return parts.quorum.image

    def remote_reads() -> RemoteReads | None:
        return context.remote_reads

    partitions = PartitionRegistry(image)
    brokers = _broker_connections(parts, image)
    groups = GroupCoordinator(runtime, logs, partitions, spawn=spawn, config=config)
    appender = LeaderAppender(runtime, logs, spawn)
    markers = LocalMarkerWriter(runtime.clock, partitions, groups, appender, config=config)
    producer_ids = ProducerIdAllocator(parts.controller, parts.identity, spawn=spawn)
    others = _other_brokers(parts, brokers, config)
    transactions = TransactionCoordinator(
        runtime,
        logs,
        partitions,
        producer_ids=producer_ids,
        markers=ClusterMarkerWriter(markers, others),
        spawn=spawn,
        config=config,
        image=image,
    )
    cleaner = LogCleaner(runtime, logs, lambda: _cleaner_settings(config()))
    fetchers = _build_fetchers(parts, partitions, config, remote_reads)
    rebuilder = _build_rebuilder(parts, fetchers, config)
    context = BrokerContext(
        static_config=parts.config,
        config=parts.config,
        runtime=runtime,
        cluster_id=parts.cluster_id,
        identity=parts.identity,
        quorum=parts.quorum,
        controller=parts.controller,
        brokers=brokers,
        logs=logs,
        partitions=partitions,
        fetch_sessions=FetchSessionCache(
            max_sessions=parts.config.max_incremental_fetch_session_cache_slots, rng=runtime.rng
        ),
        producer_ids=producer_ids,
        auto_creation=AutoTopicCreation(parts.controller, image=image, config=config, spawn=spawn),
        groups=groups,
        appender=appender,
        markers=markers,
        transactions=transactions,
        partition_adder=ClusterPartitionAdder(transactions, others),
        metrics=NodeMetrics(),
        fetchers=fetchers,
        cleaner=cleaner,
        rebuilder=rebuilder,
        scrubber=_build_scrubber(
            parts, partitions, brokers, cleaner=cleaner, rebuilder=rebuilder, config=config, remote_reads=remote_reads
        ),
        moves=build_moves(parts, partitions, cleaner),
        tiering=None,
        remote_reads=None,
        spawn=parts.serve,
        on_broken_invariant=parts.fail,
    )
    _add_tiering(parts, context, config)
    return context


def _broker_connections(parts: BrokerParts, image: Callable[[], MetadataImage]) -> BrokerConnections:
    settings = ConnectionSettings(security=parts.security)
    return BrokerConnections(parts.runtime, image, parts.identity, parts.config.inter_broker_listener_name, settings)


def _other_brokers(parts: BrokerParts, brokers: BrokerConnections, config: Callable[[], ServerConfig]) -> OtherBrokers:
    return OtherBrokers(
        brokers=brokers,
        identity=parts.identity,
        image=lambda: parts.quorum.image,
        spawn=parts.spawn,
        timeout_ms=lambda: config().request_timeout_ms,
    )


def _build_fetchers(
    parts: BrokerParts,
    partitions: PartitionRegistry,
    config: Callable[[], ServerConfig],
    remote_reads: Callable[[], RemoteReads | None],
) -> ReplicaFetchers:
    logs = parts.logs
    return ReplicaFetchers(
        parts.runtime,
        partitions,
        parts.identity,
        spawn=parts.spawn,
        config=config,
        image=lambda: parts.quorum.image,
        on_dir_failure=logs.on_dir_failure,
        save_recovery_points=logs.save_recovery_points,
        tier=FollowerTier(remote_reads, logs),
        security=parts.security,
    )


def _build_rebuilder(
    parts: BrokerParts, fetchers: ReplicaFetchers, config: Callable[[], ServerConfig]
) -> ReplicaRebuilder:
    return ReplicaRebuilder(
        parts.runtime,
        parts.logs,
        fetchers,
        node_id=parts.identity.node_id,
        image=lambda: parts.quorum.image,
        fence_ms=lambda: config().broker_session_timeout_ms,
    )


def _build_scrubber(
    parts: BrokerParts,
    partitions: PartitionRegistry,
    brokers: BrokerConnections,
    *,
    cleaner: LogCleaner,
    rebuilder: ReplicaRebuilder,
    config: Callable[[], ServerConfig],
    remote_reads: Callable[[], RemoteReads | None],
) -> LogScrubber:
    runtime, node_id = parts.runtime, parts.identity.node_id
    sources = PartitionSources(
        brokers, runtime.threads, node_id=node_id, image=lambda: parts.quorum.image, remote_reads=remote_reads
    )
    scrubber = LogScrubber(
        runtime,
        parts.logs,
        partitions,
        RangeMender(runtime, sources),
        rebuilder=rebuilder,
        cleaner=cleaner,
        dir_files=DirFiles(runtime, parts.logs, parts.quorum, parts.config.metadata_log_dir),
        settings=lambda: ScrubSettings.from_config(config()),
        node_id=node_id,
    )
    parts.logs.subscribe_damage(scrubber.suspect)
    return scrubber


def _add_tiering(parts: BrokerParts, context: BrokerContext, config: Callable[[], ServerConfig]) -> None:
    if not parts.config.remote_log_storage_system_enable:
        return
    # Loaded here, so that a broker without a tier does not wait for these modules at its start.
    from crabka.broker.tiering.assembly import build_tiering
    from crabka.broker.tiering.read.build import build_remote_reads

    context.tiering = build_tiering(parts, config, lambda: context.remote_reads)
    reads = context.remote_reads = build_remote_reads(context.tiering.manager.tools)
    context.tiering.manager.subscribe_removed(lambda segment_id: reads.forget([segment_id.id]))


def build_replica_host(parts: BrokerParts, context: BrokerContext) -> ReplicaHost:
    """Make what replicated partitions must know of the broker."""
    return ReplicaHost(
        now_ms=parts.runtime.clock.monotonic_ms,
        brokers=lambda: parts.quorum.image.cluster.brokers,
        max_lag_ms=lambda: context.config.replica_lag_time_max_ms,
        propose=IsrChanges(parts.controller, parts.identity, spawn=parts.spawn).propose,
    )


def build_publisher(
    parts: BrokerParts,
    context: BrokerContext,
    host: ReplicaHost,
    topic_config: Callable[[MetadataImage, str], TopicConfig],
) -> MetadataPublisher:
    """Make what lets the broker lead and follow as the metadata says."""
    identity = parts.identity
    return MetadataPublisher(
        identity.node_id,
        parts.logs,
        context.partitions,
        topic_config=topic_config,
        fetchers=context.fetchers,
        tiering=None if context.tiering is None else context.tiering.manager,
        moves=context.moves,
        choices=context.choices,
        broker_epoch=lambda: identity.broker_epoch,
        now_ms=host.now_ms,
        make_partition=functools.partial(Partition, host=host),
    )


def _cleaner_settings(config: ServerConfig) -> CleanerSettings:
    return CleanerSettings(
        enabled=config.log_cleaner_enable,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        load_factor=config.log_cleaner_io_buffer_load_factor,
        max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )
