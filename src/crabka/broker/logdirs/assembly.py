"""Puts the moves of a broker together, and what settles those that a stop interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.controller_link.directory_reports import DirectoryReports
from crabka.broker.logdirs.assignments import DirectoryAssignments
from crabka.broker.logdirs.move_host import MoveHost
from crabka.broker.logdirs.move_registry import MoveRegistry
from crabka.broker.logdirs.resume import MoveResolution
from crabka.broker.replication.throttle import throttled_rate

if TYPE_CHECKING:
    import uuid

    from crabka.broker.lifecycle.assembly import BrokerParts
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.config.server import ServerConfig
    from crabka.ids import TopicPartition
    from crabka.log.cleaner.cleaner import LogCleaner
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.configs import ConfigsImage
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime

MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def build_moves(parts: BrokerParts, partitions: PartitionRegistry, cleaner: LogCleaner) -> MoveRegistry:
    """Make what moves replicas between the log dirs of a broker."""
    assignments = DirectoryAssignments(
        DirectoryReports(parts.controller, parts.identity, parts.logs),
        parts.logs,
        node_id=parts.identity.node_id,
        image=lambda: parts.quorum.image,
        subscribe=parts.quorum.subscribe,
    )
    host = MoveHost(runtime=parts.runtime, logs=parts.logs, cleaner=cleaner, assignments=assignments)
    return MoveRegistry(host, partitions, spawn=parts.spawn, slots=_slots(parts.config), fail=parts.fail)


def _slots(config: ServerConfig) -> int:
    return config.num_replica_alter_log_dirs_threads or len(config.log_dirs)


def take_move_rate(moves: MoveRegistry, configs: ConfigsImage, node_id: int) -> None:
    """Throttle moves by what the settings say from now on."""
    moves.host.throttle.bytes_per_second = throttled_rate(configs, node_id, MOVE_RATE)


def build_resolution(runtime: Runtime, logs: LogManager, config: ServerConfig, image: MetadataImage) -> MoveResolution:
    """Make what settles interrupted moves before the logs are opened."""

    def assigned(topic_partition: TopicPartition) -> uuid.UUID | None:
        topic = image.topics.by_name.get(topic_partition.topic)
        known = None if topic is None else topic.partitions.get(topic_partition.partition)
        if known is None or config.node_id not in known.replicas:
            return None
        return known.directory_of(config.node_id)

    return MoveResolution(
        fs=runtime.fs,
        directory_id=logs.directory_id,
        assigned=assigned,
        new_uuid=runtime.new_uuid,
        dir_count=len(config.log_dirs),
        withheld=logs.withheld,
    )
