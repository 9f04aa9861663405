"""What a handler may use: the state of the node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from crabka.broker.logdirs.choices import RememberedChoices
from crabka.runtime.thread_share import ThreadShare

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.controller_link.auto_create import AutoTopicCreation
    from crabka.broker.controller_link.channel import ControllerRequests
    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.broker.controller_link.producer_ids import ProducerIdAllocator
    from crabka.broker.fetch.sessions import FetchSessionCache
    from crabka.broker.groups.coordinator import GroupCoordinator
    from crabka.broker.healing.rebuilder import ReplicaRebuilder
    from crabka.broker.healing.scrubber import LogScrubber
    from crabka.broker.inter_broker.connections import BrokerConnections
    from crabka.broker.logdirs.move_registry import MoveRegistry
    from crabka.broker.partition.leader_append import LeaderAppender
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.broker.replication.fetchers import ReplicaFetchers
    from crabka.broker.tiering.assembly import BrokerTiering
    from crabka.broker.tiering.read.reader import RemoteReads
    from crabka.broker.transactions.coordinator import TransactionCoordinator
    from crabka.broker.transactions.local_markers import LocalMarkerWriter
    from crabka.broker.transactions.verification import PartitionAdder
    from crabka.config.server import ServerConfig
    from crabka.errors import InvariantError
    from crabka.log.cleaner.cleaner import LogCleaner
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime, Spawn
    from crabka.quorum.raft.quorum import RaftQuorum
    from crabka.serving.access.access import Access
    from crabka.serving.metrics import NodeMetrics

# Jobs of requests that are with the thread pool at a time; others wait in order.
REQUEST_JOBS_AT_ONCE: Final = 64


@dataclass(slots=True)
class BrokerContext:
    """Everything that handlers share. One per node, owned by the node's loop."""

    # Settings of the node's file alone, and with the dynamic ones over them.
    static_config: ServerConfig
    config: ServerConfig
    runtime: Runtime
    cluster_id: str
    identity: BrokerIdentity
    quorum: RaftQuorum
    controller: ControllerRequests
    brokers: BrokerConnections
    logs: LogManager
    partitions: PartitionRegistry
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIdAllocator
    auto_creation: AutoTopicCreation
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    # The way to the coordinator of any transaction, also on other brokers.
    partition_adder: PartitionAdder
    appender: LeaderAppender
    # Markers for partitions of this node alone.
    markers: LocalMarkerWriter
    metrics: NodeMetrics
    fetchers: ReplicaFetchers
    cleaner: LogCleaner
    # Lets replicas begin anew that cannot be repaired.
    rebuilder: ReplicaRebuilder
    # Checks the logs and repairs what is damaged.
    scrubber: LogScrubber
    # Replicas on their way to other log dirs.
    moves: MoveRegistry
    # None on a node without a remote tier.
    tiering: BrokerTiering | None
    # What only the remote tier has; None as well without a tier.
    remote_reads: RemoteReads | None
    # Runs a coroutine as a task of the node, so that no task outlives it.
    spawn: Spawn
    # Ends the node: its state is wrong, so it must not answer any more.
    on_broken_invariant: Callable[[InvariantError], None]
    # What clients may do; None on a node without an authorizer.
    access: Access | None = None
    # Log dirs that were chosen for replicas before these are here.
    choices: RememberedChoices = field(default_factory=RememberedChoices)
    # For work that a request waits for: however many do, the node's own syncs find the queue of the pool short.
    request_threads: ThreadShare = field(init=False)

    def __post_init__(self) -> None:
        """Give requests their share of the threads."""
        self.request_threads = ThreadShare(self.runtime.threads, REQUEST_JOBS_AT_ONCE)

    @property
    def image(self) -> MetadataImage:
        """Return the newest metadata that this node applied."""
        return self.quorum.image

    @property
    def node_id(self) -> int:
        """Return this node's id."""
        return self.config.node_id
