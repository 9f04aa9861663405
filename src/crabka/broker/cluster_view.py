"""How clients see brokers and partitions: endpoints per listener, errors, offline replicas, allowed operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.metadata.topics import NO_LEADER
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class SeenBroker(NamedTuple):
    """One broker as a client of one listener reaches it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def broker_endpoints(image: MetadataImage, listener_name: str) -> Iterator[SeenBroker]:
    """Yield the registered brokers that have an endpoint on this listener."""
    for node_id, broker in sorted(image.cluster.brokers.items()):
        endpoint = broker.endpoint(listener_name)
        if endpoint is not None:
            yield SeenBroker(node_id, endpoint.host, endpoint.port, broker.rack, broker.fenced)


def alive_endpoints(image: MetadataImage, listener_name: str) -> Iterator[tuple[int, str, int, str | None]]:
    """Yield node id, host, port and rack of brokers that clients may talk to."""
    for endpoint in broker_endpoints(image, listener_name):
        if not endpoint.fenced:
            yield endpoint[:4]


def partition_error(image: MetadataImage, partition: PartitionImage) -> ErrorCode:
    """Return LEADER_NOT_AVAILABLE for a partition without a living leader, else no error."""
    leader = image.cluster.brokers.get(partition.leader)
    return ErrorCode.leader_not_available if leader is None or leader.fenced else ErrorCode.none


def leader_of(image: MetadataImage, partition: PartitionImage) -> int:
    """Return the leader that a client may talk to, -1 if there is none."""
    return partition.leader if partition_error(image, partition) is ErrorCode.none else NO_LEADER


def offline_replicas(image: MetadataImage, partition: PartitionImage) -> list[int]:
    """Return the replicas whose broker is not there or whose log dir failed."""
    brokers = image.cluster.brokers
    return [
        node_id
        for node_id in partition.replicas
        if (broker := brokers.get(node_id)) is None or broker.fenced or not broker.has_online_replica(partition)
    ]
