"""A broker's life in the metadata, compared with Kafka's records."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from crabka.controller.brokers import (
    Registration,
    has_online_replica,
    keep_directories,
    register_broker,
    register_controller,
    unfence_broker,
)
from crabka.ids import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DirectoryId
from crabka.metadata.cluster import Endpoint
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import PartitionChangeRecord, RegisterBrokerRecord, RegisterControllerRecord
from tests.support.images import applied, cluster, registration, with_topic
from tests.support.metadata_logs import SINGLE, segments, stored_records

D1, D2 = uuid.UUID(int=1), uuid.UUID(int=5)


def golden(kind: type) -> Any:
    return next(
        record.message
        for path in segments(SINGLE)
        for record in stored_records(path)
        if isinstance(record.message, kind)
    )


def said_by(record: Any, log_dirs: tuple[DirectoryId, ...] = ()) -> Registration:
    endpoints = [Endpoint(each.name, each.host, each.port, each.security_protocol) for each in record.end_points]
    node_id = record.broker_id if isinstance(record, RegisterBrokerRecord) else record.controller_id
    return Registration(node_id, record.incarnation_id, endpoints, log_dirs)


def with_sorted_features(record: Any) -> Any:
    # Kafka lists them in no order.
    return replace(record, features=tuple(sorted(record.features, key=lambda feature: feature.name)))


def test_a_broker_registers_as_kafkas_does() -> None:
    recorded = golden(RegisterBrokerRecord)
    # The dirs are sorted whatever the order in which the node names them.
    said = said_by(recorded, tuple(reversed(recorded.log_dirs)))
    outcome = register_broker(MetadataImage(), said, broker_epoch=recorded.broker_epoch)
    assert outcome.result == recorded.broker_epoch
    (record,) = outcome.records
    assert with_sorted_features(record) == with_sorted_features(recorded)


def test_a_controller_registers_as_kafkas_does() -> None:
    recorded = golden(RegisterControllerRecord)
    (record,) = register_controller(MetadataImage(), said_by(recorded)).records
    assert with_sorted_features(record) == with_sorted_features(recorded)


def leaders(image: MetadataImage) -> dict[int, tuple[int, int]]:
    partitions = image.topics.by_name["t"].partitions
    return {index: (partition.leader, partition.leader_epoch) for index, partition in partitions.items()}


def test_a_restart_raises_leader_epochs_by_two() -> None:
    image = with_topic(cluster(1), "t", 2)
    assert leaders(image) == {0: (1, 0), 1: (1, 0)}
    image = applied(image, register_broker(image, registration(1), broker_epoch=50).records)
    assert leaders(image) == {0: (-1, 1), 1: (-1, 1)}
    assert image.cluster.brokers[1].fenced
    image = applied(image, unfence_broker(image, 1).records)
    assert leaders(image) == {0: (1, 2), 1: (1, 2)}
    assert not image.cluster.brokers[1].fenced


def test_an_eligible_replica_takes_over_as_in_kafka() -> None:
    image = with_topic(cluster(1), "t")
    topic_id = image.topics.by_name["t"].topic_id
    # What Kafka writes when a single node stops.
    stopped = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, leader=-1, isr=(), eligible_leader_replicas=(1,), last_known_elr=(1,)
    )
    image = applied(image, [stopped])
    (_, election) = unfence_broker(image, 1).records
    assert election == PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, leader=1, isr=(1,), eligible_leader_replicas=(), last_known_elr=()
    )


def test_a_replica_that_is_not_in_sync_does_not_lead() -> None:
    image = with_topic(cluster(1, 2), "t", 1, 2)
    topic_id = image.topics.by_name["t"].topic_id
    image = applied(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=-1, isr=(2,))])
    assert len(unfence_broker(image, 1).records) == 1
    assert len(unfence_broker(image, 2).records) == 2


def two_dirs() -> MetadataImage:
    image = cluster()
    image = applied(image, register_broker(image, registration(1, (D1, D2)), broker_epoch=3).records)
    image = with_topic(applied(image, unfence_broker(image, 1).records), "t", 3)
    topic_id = image.topics.by_name["t"].topic_id
    placed = [
        PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=(directory,))
        for index, directory in enumerate((D1, D2))
    ]
    return applied(image, placed)


def test_a_failed_dir_costs_its_partitions_their_leader() -> None:
    image = two_dirs()
    image = applied(image, keep_directories(image, 1, [D1]).records)
    # Partition 2 has not told its dir yet.
    assert {index: leader for index, (leader, _) in leaders(image).items()} == {0: 1, 1: -1, 2: 1}
    assert image.cluster.brokers[1].directories == (D1,)
    assert not image.cluster.brokers[1].fenced
    assert keep_directories(image, 1, [D1]).records == []


def test_dirs_that_all_work_are_no_news() -> None:
    assert keep_directories(two_dirs(), 1, [D1, D2]).records == []


def test_a_partition_in_a_failed_dir_gets_no_leader_at_start() -> None:
    image = two_dirs()
    image = applied(image, register_broker(image, registration(1, (D1,)), broker_epoch=9).records)
    image = applied(image, unfence_broker(image, 1).records)
    assert {index: leader for index, (leader, _) in leaders(image).items()} == {0: 1, 1: -1, 2: 1}


@pytest.mark.parametrize(
    ("directory", "online"),
    [(D1, True), (D2, False), (DIRECTORY_UNASSIGNED, True), (DIRECTORY_MIGRATING, True), (DIRECTORY_LOST, False)],
)
def test_which_replicas_are_online(directory: DirectoryId, *, online: bool) -> None:
    image = two_dirs()
    partition = replace(image.topics.by_name["t"].partitions[0], directories=(directory,))
    broker = replace(image.cluster.brokers[1], directories=(D1,))
    assert has_online_replica(broker, partition) is online


def test_a_broker_without_known_dirs_has_all_of_them() -> None:
    image = two_dirs()
    broker = replace(image.cluster.brokers[1], directories=())
    assert has_online_replica(broker, image.topics.by_name["t"].partitions[0])
