"""What happens to partitions when something happens to a broker."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.leadership import (
    PartitionEdits,
    after_unclean_shutdown,
    change_partition,
    configured_election,
    led_partition_count,
    partitions_eligible_on,
    partitions_in_sync_on,
    with_broker,
    without_broker,
)
from crabka.controller.decisions.partition_change import Election, PartitionTarget
from crabka.metadata.image import MetadataImage
from tests.support.quorum.images import ELR_ON, applied, cluster, partition_of, with_partitions


def test_a_broker_leaves_isr_and_leadership_everywhere() -> None:
    image = with_partitions(
        cluster(1, 2, 3), "t", {"replicas": (1, 2)}, {"replicas": (2, 1)}, {"replicas": (1, 3), "isr": (3,)}
    )
    view = ControlView(image)
    rows = partitions_in_sync_on(view, 1)
    assert [index for _, index, _ in rows] == [0, 1]
    image = applied(image, without_broker(view, 1, rows))
    assert [(partition_of(image, "t", i).leader, partition_of(image, "t", i).isr) for i in range(3)] == [
        (2, (2,)),
        (2, (2,)),
        (3, (3,)),
    ]


def test_a_broker_does_not_get_back_what_it_loses_even_in_an_unclean_election() -> None:
    image = with_partitions(
        cluster(1, 2, fenced=[2]), "t", {"replicas": (1, 2), "isr": (1,)}, unclean_leader_election_enable="true"
    )
    view = ControlView(image)
    assert [record.leader for record in without_broker(view, 1, view.partitions())] == [-1]


def test_a_broker_that_comes_back_leads_what_has_no_leader() -> None:
    image = with_partitions(
        cluster(1, 2, fenced=[1]),
        "t",
        {"replicas": (1, 2), "isr": (1,), "leader": -1},
        {"replicas": (1, 2), "isr": (2,)},
        {"replicas": (2, 1), "isr": (2,), "leader": -1},
    )
    records = with_broker(ControlView(image), 1)
    assert [(record.partition_id, record.leader) for record in records] == [(0, 1), (2, 2)]


def test_after_an_unclean_stop_a_broker_is_eligible_nowhere() -> None:
    image = with_partitions(
        cluster(1, 2, 3, features=ELR_ON),
        "t",
        {"replicas": (1, 2, 3)},
        {"replicas": (1, 2, 3), "isr": (3,), "eligible_leader_replicas": (1, 2)},
        {"replicas": (2, 3)},
        min_insync_replicas="2",
    )
    view = ControlView(image)
    rows = partitions_eligible_on(view, 1)
    assert [index for _, index, _ in rows] == [0, 1]
    image = applied(image, after_unclean_shutdown(view, 1, rows))
    first, second = partition_of(image, "t", 0), partition_of(image, "t", 1)
    assert (first.isr, first.elr, first.leader) == ((2, 3), (), 2)
    assert (second.isr, second.elr, second.leader) == ((3,), (2,), 3)


def test_a_replica_in_a_dir_that_is_gone_cannot_lead() -> None:
    import uuid

    lost = (uuid.UUID(int=4242), uuid.UUID(int=1002))
    image = with_partitions(cluster(1, 2), "t", {"replicas": (1, 2), "leader": 2, "directories": lost})
    row = next(ControlView(image).partitions())
    assert change_partition(ControlView(image), row, PartitionTarget(election=Election.PREFERRED)) is None


def test_how_many_partitions_a_broker_leads() -> None:
    image = with_partitions(cluster(1, 2), "t", {"replicas": (1, 2)}, {"replicas": (1, 2), "leader": 2})
    assert [led_partition_count(ControlView(image), broker_id) for broker_id in (1, 2, 3)] == [1, 1, 0]


@pytest.mark.parametrize(("value", "election"), [("true", Election.UNCLEAN), ("false", Election.ONLINE)])
def test_a_topic_says_how_far_an_election_may_go(value: str, election: Election) -> None:
    configs: dict[str, Any] = {"unclean_leader_election_enable": value}
    image: MetadataImage = with_partitions(cluster(1), "t", {"replicas": (1,)}, **configs)
    assert configured_election(ControlView(image), image.topics.by_name["t"]) is election


def test_a_second_change_builds_on_the_first() -> None:
    image = with_partitions(cluster(1, 2, 3), "t", {"replicas": (1, 2, 3)})
    topic = image.topics.by_name["t"]
    edits = PartitionEdits(ControlView(image))
    assert edits.change(topic, 0, PartitionTarget(isr=(1, 2))) is not None
    assert edits.change(topic, 0, PartitionTarget(isr=(1, 2))) is None
    assert edits.change(topic, 0, PartitionTarget(isr=(1,))) is not None
    edited = edits.partition(topic, 0)
    assert edited == partition_of(applied(image, edits.records))
    assert edited is not None
    assert (edited.isr, edited.partition_epoch) == ((1,), 12)


def test_what_was_not_changed_is_that_of_the_image() -> None:
    image = with_partitions(cluster(1), "t", {"replicas": (1,)})
    topic = image.topics.by_name["t"]
    edits = PartitionEdits(ControlView(image))
    assert edits.partition(topic, 0) is topic.partitions[0]
    assert edits.partition(topic, 1) is None
