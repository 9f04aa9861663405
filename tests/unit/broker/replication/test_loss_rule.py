from __future__ import annotations

from dataclasses import replace

from crabka.broker.replication.loss_rule import is_settled, must_stand_back
from crabka.ids import DIRECTORY_LOST
from crabka.metadata.image import MetadataImage
from crabka.metadata.topics import PartitionImage
from tests.support.quorum.images import cluster, partition_of, with_partitions

ME = 1


def placed(*replicas: int, leader: int = -1, isr: tuple[int, ...] = (), lost: tuple[int, ...] = ()) -> PartitionImage:
    image = with_partitions(cluster(1, 2, 3), "t", {"replicas": replicas, "leader": leader, "isr": isr})
    partition = partition_of(image, "t", 0)
    known = [DIRECTORY_LOST if each in lost else partition.directory_of(each) for each in replicas]
    return replace(partition, directories=tuple(known))


def stands_back(partition: PartitionImage, image: MetadataImage | None = None, *, is_durable: bool = True) -> bool:
    return must_stand_back(partition, ME, (image or cluster(1, 2, 3)).cluster.brokers, is_durable=is_durable)


def fencing(*fenced: int) -> MetadataImage:
    image = cluster(1, 2, 3)
    brokers = {each: replace(broker, fenced=each in fenced) for each, broker in image.cluster.brokers.items()}
    return replace(image, cluster=replace(image.cluster, brokers=brokers))


def test_the_only_replica_leads() -> None:
    assert not stands_back(placed(1, isr=(1,)))


def test_the_last_in_sync_stands_back_for_others_that_may_have_more() -> None:
    assert stands_back(placed(1, 2, 3, isr=(1,)))


def test_a_follower_stands_back_while_it_is_eligible_and_is_settled_once_it_is_in_sync() -> None:
    eligible = replace(placed(1, 2, 3, leader=2, isr=(2, 3)), elr=(1,))
    lagging = placed(1, 2, 3, leader=2, isr=(2, 3), lost=(1,))
    in_sync = placed(1, 2, 3, leader=2, isr=(2, 3, 1))
    assert [stands_back(each) for each in (eligible, lagging, in_sync)] == [True, False, False]
    assert [is_settled(each, ME) for each in (lagging, in_sync)] == [False, True]


def test_a_replica_that_leads_or_may_lead_is_settled() -> None:
    assert is_settled(placed(1, 2, leader=1, isr=(1,)), ME)
    assert is_settled(placed(1, isr=(1,)), ME)


def test_who_leads_already_is_not_kept_from_it() -> None:
    assert not stands_back(placed(1, 2, leader=1, isr=(1,)))


def test_brokers_that_are_not_registered_are_not_waited_for() -> None:
    assert not stands_back(placed(1, 8, 9, isr=(1,), lost=(1,)))
    assert stands_back(placed(1, 8, 2, isr=(1,), lost=(1,)))


def test_of_all_who_lost_records_the_first_that_was_trusted_leads() -> None:
    everybody = (1, 2, 3)
    assert not stands_back(placed(3, 2, 1, isr=(1,), lost=everybody))
    assert stands_back(placed(1, 2, 3, isr=(2,), lost=everybody))
    assert not stands_back(replace(placed(3, 2, 1, lost=everybody), elr=(1, 2)))
    assert not stands_back(replace(placed(3, 2, 1, lost=everybody), last_known_elr=(1,)))
    assert not stands_back(placed(1, 2, 3, lost=everybody))


def test_a_replica_that_is_away_is_waited_for() -> None:
    everybody = (1, 2, 3)
    assert stands_back(placed(1, 2, 3, isr=(1,), lost=everybody), fencing(3))
    assert stands_back(placed(1, 2, 3, isr=(1,), lost=(1, 2)))


def test_what_was_never_synced_is_awaited_from_trusted_replicas_alone() -> None:
    assert not stands_back(placed(1, 2, 3, isr=(1,)), is_durable=False)
    assert stands_back(placed(1, 2, 3, isr=(2,)), is_durable=False)
    assert stands_back(replace(placed(1, 2, 3), elr=(3,)), is_durable=False)
    assert not stands_back(replace(placed(1, 2, 3), last_known_elr=(1,)), is_durable=False)
    assert not stands_back(placed(1, 2, 3, leader=2, isr=(2,)), is_durable=False)
