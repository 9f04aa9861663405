"""Which nodes a simulated cluster has, how they are configured, and how their disks are formatted."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from crabka.config.server import ServerConfig
from crabka.kraft.voters import VoterEndpoint, VoterNode
from crabka.ports import Runtime
from crabka.quorum.formatting import format_storage

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
BROKER_PORT = 9092
CONTROLLER_PORT = 9093
LOG_DIRS = ("/d1", "/d2")
METADATA_DIR = "/m"
# Everything that a node does now and then happens often here; the metadata log rolls, and is pruned below snapshots.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "700",
    "broker.session.timeout.ms": "3000",
    "controlled.shutdown.enable": "true",
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "initial.broker.registration.timeout.ms": "600000",
    "internal.metadata.log.segment.bytes": "6000",
    "log.flush.interval.ms": str(1 << 40),
    "log.flush.offset.checkpoint.interval.ms": "900",
    "log.flush.scheduler.interval.ms": "1100",
    "log.retention.check.interval.ms": "1500",
    "log.segment.delete.delay.ms": "300",
    "metadata.log.max.record.bytes.between.snapshots": "8000",
    "metadata.max.retention.bytes": "18000",
    "offsets.topic.num.partitions": "2",
    "replica.high.watermark.checkpoint.interval.ms": "1300",
    "replica.lag.time.max.ms": "2500",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class Shape(Enum):
    """The kinds of clusters: brokers and controllers of their own, or nodes that are both."""

    LONE = "one combined node"
    COMBINED = "three combined nodes"
    SPLIT = "three brokers and three controllers"


@dataclass(frozen=True)
class SimulatedNodeSpec:
    """One node of a cluster."""

    node_id: int
    host: str
    is_broker: bool
    is_controller: bool

    @property
    def roles(self) -> str:
        """The roles as `process.roles` names them."""
        return ",".join(["broker"] * self.is_broker + ["controller"] * self.is_controller)


def specs_of(shape: Shape) -> list[SimulatedNodeSpec]:
    """Return the nodes of a cluster."""
    match shape:
        case Shape.LONE:
            return [SimulatedNodeSpec(1, "n1", True, True)]
        case Shape.COMBINED:
            return [SimulatedNodeSpec(number, f"n{number}", True, True) for number in (1, 2, 3)]
        case Shape.SPLIT:
            brokers = [SimulatedNodeSpec(number, f"b{number}", True, False) for number in (1, 2, 3)]
            return [*brokers, *(SimulatedNodeSpec(100 + number, f"c{number}", False, True) for number in (1, 2, 3))]


class Layout:
    """The configuration of a whole cluster."""

    def __init__(self, shape: Shape, settings: Mapping[str, str] | None = None) -> None:
        self.shape = shape
        self.specs = specs_of(shape)
        self._settings = {**SETTINGS, **(settings or {})}
        self.brokers = [spec for spec in self.specs if spec.is_broker]
        self.controllers = [spec for spec in self.specs if spec.is_controller]
        self.bootstrap = ",".join(f"{spec.host}:{BROKER_PORT}" for spec in self.brokers)
        self.voters = [_voter(spec) for spec in self.controllers]

    @property
    def replication_factor(self) -> int:
        """The most replicas that a topic can have at the start."""
        return len(self.brokers)

    def config(self, spec: SimulatedNodeSpec) -> ServerConfig:
        """Return the configuration of a node."""
        broker = [f"PLAINTEXT://{spec.host}:{BROKER_PORT}"] * spec.is_broker
        controller = [f"CONTROLLER://{spec.host}:{CONTROLLER_PORT}"] * spec.is_controller
        factor = str(self.replication_factor)
        properties = {
            "process.roles": spec.roles,
            "node.id": str(spec.node_id),
            "listeners": ",".join([*broker, *controller]),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"{c.host}:{CONTROLLER_PORT}" for c in self.controllers),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": ",".join(LOG_DIRS) if spec.is_broker else METADATA_DIR,
            "metadata.log.dir": METADATA_DIR,
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            "min.insync.replicas": str(min(2, self.replication_factor)),
            "transaction.state.log.min.isr": str(min(2, self.replication_factor)),
            **self._settings,
        }
        if not spec.is_broker:
            del properties["inter.broker.listener.name"]
        config, _ = ServerConfig.from_properties(properties)
        return config

    def format(self, spec: SimulatedNodeSpec, runtime: Runtime, *, again: bool = False) -> None:
        """Format the disk of a node; `again` formats only what was lost."""
        format_storage(
            runtime,
            self.config(spec),
            CLUSTER_ID,
            standalone=False,
            initial_controllers=self.voters if spec.is_controller else (),
            ignore_formatted=again,
        )


def _voter(spec: SimulatedNodeSpec) -> VoterNode:
    endpoint = VoterEndpoint("CONTROLLER", spec.host, CONTROLLER_PORT)
    return VoterNode(spec.node_id, uuid.UUID(int=spec.node_id), (endpoint,))
