"""The cluster by the last Metadata responses: immutable values and their merge."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from crabka.ids import ZERO_UUID
from crabka.protocol.error_codes import ErrorCode


class EndpointType(enum.IntEnum):
    """The kind of nodes that DescribeCluster returns (KIP-919)."""

    BROKERS = 1
    CONTROLLERS = 2


class BrokerEndpoint(NamedTuple):
    """The address of a broker for clients."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    """Leader and replicas of a partition; `leader` is -1 without one."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: ErrorCode


class TopicMetadata(NamedTuple):
    """A topic with its partitions; `topic_id` is zero if the broker does not send it (Metadata below v10)."""

    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The known nodes and topics of the cluster."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, BrokerEndpoint] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicMetadata] = field(default_factory=lambda: MappingProxyType({}))
    topic_errors: Mapping[str, ErrorCode] = field(default_factory=lambda: MappingProxyType({}))

    def merged(self, response: Any, *, all_topics: bool) -> ClusterView:
        """Return the view after a Metadata response; topics it does not mention stay unless it listed all."""
        topics = {} if all_topics else dict(self.topics)
        errors = {} if all_topics else dict(self.topic_errors)
        for topic in response.topics:
            errors.pop(topic.name, None)
            if topic.error_code is ErrorCode.none:
                topics[topic.name] = _topic_metadata(topic)
            else:
                topics.pop(topic.name, None)
                errors[topic.name] = topic.error_code
        brokers = {
            broker.node_id: BrokerEndpoint(broker.node_id, broker.host, broker.port, getattr(broker, "rack", None))
            for broker in response.brokers
        }
        return ClusterView(
            getattr(response, "cluster_id", None),
            getattr(response, "controller_id", -1),
            MappingProxyType(brokers),
            MappingProxyType(topics),
            MappingProxyType(errors),
        )

    def without_topic(self, name: str) -> ClusterView:
        """Return the view without a stale topic."""
        return ClusterView(
            self.cluster_id,
            self.controller_id,
            self.brokers,
            MappingProxyType({topic: value for topic, value in self.topics.items() if topic != name}),
            MappingProxyType({topic: code for topic, code in self.topic_errors.items() if topic != name}),
        )


def _topic_metadata(topic: Any) -> TopicMetadata:
    partitions = {
        partition.partition_index: PartitionMetadata(
            partition.partition_index,
            partition.leader_id,
            getattr(partition, "leader_epoch", -1),
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(getattr(partition, "offline_replicas", ())),
            partition.error_code,
        )
        for partition in topic.partitions
    }
    topic_id = getattr(topic, "topic_id", None) or ZERO_UUID
    return TopicMetadata(topic.name, topic_id, getattr(topic, "is_internal", False), MappingProxyType(partitions))
