"""Who leads a partition, for clients that asked in vain."""

from __future__ import annotations

import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from crabka.broker.current_leaders import MISDIRECTED_FETCH, MISDIRECTED_PRODUCE, UNKNOWN_LEADER, CurrentLeaders
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.ids import ZERO_UUID
from crabka.metadata.image import MetadataImage
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import NodeEndpoint
from tests.support.quorum.images import cluster, with_topic
from tests.support.storage.replicas import LedPartition

LISTENER = "PLAINTEXT"


def leaders(image: MetadataImage, *hosted: Any, listener: str = LISTENER) -> CurrentLeaders:
    partitions = PartitionRegistry()
    for partition in hosted:
        partitions.add(partition)
    context: Any = SimpleNamespace(image=image, partitions=partitions)
    return CurrentLeaders(context, listener)


@pytest.fixture
def image() -> MetadataImage:
    return with_topic(cluster(2, 3), "t", 1, 2)


def test_a_partition_that_is_elsewhere_is_known_from_the_metadata(image: MetadataImage) -> None:
    topic = image.topics.by_name["t"]
    leader = topic.partitions[0].leader
    for name, topic_id in (("t", ZERO_UUID), ("", topic.topic_id)):
        found = leaders(image)
        assert found.of(name, topic_id, 0) == (leader, 0)
        assert found.endpoints == [NodeEndpoint(leader, f"host-{leader}", 9092)]


def test_an_endpoint_is_reported_once(image: MetadataImage) -> None:
    found = leaders(image)
    found.of("t", ZERO_UUID, 0)
    found.of("t", ZERO_UUID, 0)
    assert len(found.endpoints) == 1


def test_what_is_not_known_has_no_leader(image: MetadataImage) -> None:
    found = leaders(image)
    assert found.of("nope", ZERO_UUID, 0) == UNKNOWN_LEADER
    assert found.of("", uuid.UUID(int=5), 0) == UNKNOWN_LEADER
    assert found.of("t", ZERO_UUID, 7) == UNKNOWN_LEADER
    assert found.endpoints == []


def test_a_hosted_partition_knows_its_own_leader(image: MetadataImage) -> None:
    hosted = LedPartition().partition
    hosted.topic, hosted.leader_id = "t", 3
    assert leaders(image, hosted).of("t", ZERO_UUID, 0) == (3, 5)


def test_a_leader_that_is_not_there_has_no_endpoint(image: MetadataImage) -> None:
    leader = image.topics.by_name["t"].partitions[0].leader
    assert leaders(image, listener="OTHER").of("t", ZERO_UUID, 0) == (leader, 0)
    brokers = {leader: replace(image.cluster.brokers[leader], fenced=True)}
    fenced = replace(image, cluster=replace(image.cluster, brokers=brokers))
    for each in (leaders(fenced), leaders(image, listener="OTHER")):
        assert each.of("t", ZERO_UUID, 0) == (leader, 0)
        assert each.endpoints == []


def test_an_old_epoch_sends_only_fetches_elsewhere() -> None:
    assert {int(ErrorCode.not_leader_or_follower)} == MISDIRECTED_PRODUCE
    assert {int(ErrorCode.fenced_leader_epoch)} == MISDIRECTED_FETCH - MISDIRECTED_PRODUCE
