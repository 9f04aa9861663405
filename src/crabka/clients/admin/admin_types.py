"""Arguments and results of admin calls."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crabka.clients.cluster.metadata import BrokerEndpoint


class ResourceType(enum.IntEnum):
    """The kind of the owner of a config."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(enum.IntEnum):
    """The operation of IncrementalAlterConfigs on a key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOwner(NamedTuple):
    """The owner of configs; brokers by their id as text, empty for the cluster-wide default."""

    type: ResourceType
    name: str


class ConfigChange(NamedTuple):
    """One key to change; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class ConfigValue(NamedTuple):
    """A config with its source; `source` 5 is the default."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    type: int
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, int], ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the broker's default. Assignments: partition -> brokers, instead of counts."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """A created topic, with the fields that the broker returns."""

    name: str
    topic_id: uuid.UUID
    partition_count: int
    replication_factor: int


class ClusterDescription(NamedTuple):
    """Brokers and controller of a cluster; or its controllers, if the client is connected to them."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerEndpoint, ...]
    fenced: frozenset[int] = frozenset()
    """The fenced brokers; only if they are requested."""


class ReplicaInfo(NamedTuple):
    """A replica in a log dir."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A log dir of a broker; total and usable bytes are -1 if the broker does not return them."""

    path: str
    replicas: Mapping[tuple[str, int], ReplicaInfo]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool = False
    is_online: bool = True


class ActiveProducer(NamedTuple):
    """A producer in the state of a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class FeatureRange(NamedTuple):
    """Versions of a feature: the supported range of the broker and the finalized level of the cluster (-1: none)."""

    min_supported: int
    max_supported: int
    finalized: int
