"""How clients see brokers and partitions."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from crabka.broker.cluster_view import (
    alive_endpoints,
    broker_endpoints,
    leader_of,
    offline_replicas,
    partition_error,
)
from crabka.ids import DIRECTORY_LOST, DIRECTORY_UNASSIGNED
from crabka.metadata.cluster import BrokerRegistration, ClusterImage, Endpoint
from crabka.metadata.image import MetadataImage
from crabka.metadata.topics import PartitionImage
from crabka.protocol.error_codes import ErrorCode

GOOD_DIR, OTHER_DIR = uuid.UUID(int=100), uuid.UUID(int=101)


def broker(node_id: int, **options: Any) -> BrokerRegistration:
    fields: dict[str, Any] = {"fenced": False, "directories": (GOOD_DIR,), **options}
    return BrokerRegistration(
        node_id, 1, uuid.UUID(int=node_id), (Endpoint("PLAINTEXT", f"h{node_id}", 9092, 0),), {}, **fields
    )


def image(*brokers: BrokerRegistration) -> MetadataImage:
    return replace(MetadataImage(), cluster=ClusterImage({each.broker_id: each for each in brokers}))


def partition(leader: int = 1, directory: uuid.UUID = GOOD_DIR) -> PartitionImage:
    return PartitionImage(
        replicas=(1,), isr=(1,), leader=leader, leader_epoch=0, partition_epoch=0, directories=(directory,)
    )


def test_a_healthy_partition() -> None:
    cluster = image(broker(1))
    assert partition_error(cluster, partition()) is ErrorCode.none
    assert leader_of(cluster, partition()) == 1
    assert offline_replicas(cluster, partition()) == []


@pytest.mark.parametrize("cluster", [image(), image(broker(1, fenced=True))])
def test_a_leader_that_is_not_there(cluster: MetadataImage) -> None:
    assert partition_error(cluster, partition()) is ErrorCode.leader_not_available
    assert leader_of(cluster, partition()) == -1
    assert offline_replicas(cluster, partition()) == [1]


@pytest.mark.parametrize(
    ("directory", "offline"),
    [(GOOD_DIR, []), (OTHER_DIR, [1]), (DIRECTORY_LOST, [1]), (DIRECTORY_UNASSIGNED, [])],
)
def test_a_replica_in_a_failed_dir_is_offline(directory: uuid.UUID, offline: list[int]) -> None:
    assert offline_replicas(image(broker(1)), partition(leader=-1, directory=directory)) == offline


def test_only_brokers_with_the_listener_are_seen() -> None:
    cluster = image(broker(2, fenced=True), broker(1, rack="r"))
    assert [each.node_id for each in broker_endpoints(cluster, "PLAINTEXT")] == [1, 2]
    assert list(alive_endpoints(cluster, "PLAINTEXT")) == [(1, "h1", 9092, "r")]
    assert list(broker_endpoints(cluster, "INTERNAL")) == []
