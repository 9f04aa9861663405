"""What the controller reads from an image."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from crabka.controller.decisions.control_view import ControllerRules, ControlView
from crabka.errors import OperationError
from crabka.ids import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import BrokerRegistrationChangeRecord, ConfigRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode
from tests.support.quorum.images import ELR_ON, applied, cluster, registration, with_partitions
from tests.support.quorum.images import registration as said

BROKER, TOPIC = 4, 2


def setting(resource_type: int, name: str, key: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)


def min_isr(image: MetadataImage) -> int:
    return ControlView(image, ControllerRules(node_id=7)).min_isr(image.topics.by_name["t"])


def test_settings_of_a_topic_come_before_those_of_the_node_and_those_before_the_defaults_of_all() -> None:
    image = with_partitions(cluster(1, 2, 3, 4, 5, 6), "t", {"replicas": (1, 2, 3, 4, 5, 6)})
    assert min_isr(image) == 1
    for value, (resource_type, name) in enumerate([(BROKER, "8"), (BROKER, ""), (BROKER, "7"), (TOPIC, "t")], start=1):
        image = applied(image, [setting(resource_type, name, "min.insync.replicas", str(value))])
        assert min_isr(image) == value


def test_min_isr_is_at_most_the_replication_factor() -> None:
    image = with_partitions(cluster(1, 2), "t", {"replicas": (1, 2)}, min_insync_replicas="3")
    assert min_isr(image) == 2


def test_unclean_election_is_off_by_default() -> None:
    image = with_partitions(cluster(1), "t", {"replicas": (1,)})
    topic = image.topics.by_name["t"]
    assert not ControlView(image).unclean_election_enabled(topic)
    assert ControlView(image, ControllerRules(unclean_leader_election=True)).unclean_election_enabled(topic)
    image = applied(image, [setting(BROKER, "", "unclean.leader.election.enable", "TRUE")])
    assert ControlView(image).unclean_election_enabled(topic)
    image = applied(image, [setting(TOPIC, "t", "unclean.leader.election.enable", "false")])
    assert not ControlView(image, ControllerRules(unclean_leader_election=True)).unclean_election_enabled(topic)


def test_an_active_broker_is_registered_unfenced_and_stays() -> None:
    image = cluster(1, 2, 3, fenced=[2])
    image = applied(image, [BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=3, in_controlled_shutdown=1)])
    view = ControlView(image)
    assert [view.is_active(broker_id) for broker_id in (1, 2, 3, 4)] == [True, False, False, False]


def test_the_dir_of_a_new_replica() -> None:
    from tests.support.quorum.images import register_broker

    two = said(2, (uuid.UUID(int=500), uuid.UUID(int=600)))
    image = cluster(1)
    image = applied(image, register_broker(image, two, broker_epoch=2).records)
    without = registration(3)
    (record, *_) = register_broker(image, without, broker_epoch=3).records
    from dataclasses import replace

    image = applied(image, [replace(record, log_dirs=())])
    view = ControlView(image)
    assert view.default_directory(1) == uuid.UUID(int=1001)
    assert view.default_directory(2) == DIRECTORY_UNASSIGNED
    assert view.default_directory(3) == DIRECTORY_MIGRATING
    assert view.default_directory(9) == DIRECTORY_UNASSIGNED
    assert view.has_online_directory(2, uuid.UUID(int=600))
    assert not view.has_online_directory(2, uuid.UUID(int=601))
    assert not view.has_online_directory(9, uuid.UUID(int=600))


def test_features_of_the_cluster() -> None:
    assert ControlView(cluster(features=ELR_ON)).elr_enabled
    assert not ControlView(cluster()).elr_enabled
    assert ControlView(cluster(features={"metadata.version": 17})).directories_supported
    assert not ControlView(cluster(features={"metadata.version": 16})).directories_supported


@pytest.mark.parametrize(
    ("broker_id", "epoch", "message"),
    [
        (9, 1, "No broker registration found for broker id 9"),
        (1, 2, "Expected broker epoch 1, but got broker epoch 2"),
    ],
)
def test_a_broker_that_is_not_the_registered_one(broker_id: int, epoch: int, message: str) -> None:
    with pytest.raises(OperationError) as caught:
        ControlView(cluster(1)).require_broker_epoch(broker_id, epoch)
    assert (caught.value.error_code, caught.value.message) == (ErrorCode.stale_broker_epoch, message)
    assert ControlView(cluster(1)).require_broker_epoch(1, 1).broker_id == 1


def test_the_rules_are_those_of_the_file(node: SimNode) -> None:
    config = replace(node.context.static_config, node_id=7, min_insync_replicas=2, unclean_leader_election_enable=True)
    assert ControllerRules.of(config) == ControllerRules(7, 2, unclean_leader_election=True)
