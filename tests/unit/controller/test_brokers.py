"""Which replicas of a broker can be reached."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from crabka.controller.brokers import has_online_replica
from crabka.ids import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DirectoryId
from crabka.metadata.image import MetadataImage
from tests.support.images import applied, cluster, register_broker, registration, unfence_broker, with_topic

D1, D2 = uuid.UUID(int=101), uuid.UUID(int=105)


def two_dirs() -> MetadataImage:
    image = cluster()
    image = applied(image, register_broker(image, registration(1, (D1, D2)), broker_epoch=3).records)
    return with_topic(applied(image, unfence_broker(image, 1).records), "t", 3)


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
