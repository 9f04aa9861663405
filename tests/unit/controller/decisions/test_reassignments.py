"""Other replicas for partitions."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.controller.decisions.alter_partition import IsrMember, IsrProposal, alter_partitions
from crabka.controller.decisions.control_view import DEFAULT_RULES
from crabka.controller.decisions.partition_change import RECOVERING
from crabka.controller.decisions.reassignments import (
    OngoingReassignment,
    Reassignment,
    alter_reassignments,
    list_reassignments,
)
from crabka.metadata.image import MetadataImage
from crabka.metadata.topics import PartitionImage
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import ELR_ON, applied, cluster, partition_of, with_partitions


def start(**partition: Any) -> MetadataImage:
    return with_partitions(cluster(1, 2, 3, 4, 5), "t", {"replicas": (1, 2, 3), **partition})


def reassign(
    image: MetadataImage, replicas: tuple[int, ...] | None, **more: Any
) -> tuple[MetadataImage, ErrorCode, str | None]:
    outcome = alter_reassignments(image, DEFAULT_RULES, [Reassignment("t", 0, replicas)], **more)
    (result,) = outcome.result
    return applied(image, outcome.records), result.verdict.error_code, result.verdict.message


def in_sync(image: MetadataImage, *isr: int) -> MetadataImage:
    """The leader reports an ISR."""
    old = partition_of(image)
    wanted = IsrProposal(
        topic_id=image.topics.by_name["t"].topic_id,
        partition_id=0,
        leader_epoch=old.leader_epoch,
        partition_epoch=old.partition_epoch,
        isr=[IsrMember(each) for each in isr],
    )
    outcome = alter_partitions(image, DEFAULT_RULES, [wanted], broker_id=old.leader, broker_epoch=old.leader)
    assert outcome.result[0].error_code in (ErrorCode.none, ErrorCode.new_leader_elected)
    return applied(image, outcome.records)


def shape(partition: PartitionImage) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return partition.replicas, partition.isr, partition.adding, partition.removing


def test_replicas_are_exchanged_step_by_step() -> None:
    image, code, _ = reassign(start(), (4, 5, 1))
    assert code is ErrorCode.none
    assert shape(partition_of(image)) == ((4, 5, 1, 2, 3), (1, 2, 3), (4, 5), (2, 3))
    assert (partition_of(image).leader, partition_of(image).leader_epoch) == (1, 5)
    image = in_sync(image, 1, 2, 3, 4)
    assert shape(partition_of(image)) == ((4, 5, 1, 2, 3), (1, 2, 3, 4), (4, 5), (2, 3))
    image = in_sync(image, 1, 2, 3, 4, 5)
    assert shape(partition_of(image)) == ((4, 5, 1), (1, 4, 5), (), ())
    assert (partition_of(image).leader, partition_of(image).leader_epoch) == (1, 6)


def test_a_leader_that_goes_is_replaced_at_the_end() -> None:
    image, _, _ = reassign(start(), (4, 5))
    image = in_sync(image, 1, 2, 3, 4, 5)
    assert shape(partition_of(image)) == ((4, 5), (4, 5), (), ())
    assert partition_of(image).leader == 4


def test_fewer_replicas_need_no_waiting() -> None:
    image, code, _ = reassign(start(), (2,))
    assert code is ErrorCode.none
    assert shape(partition_of(image)) == ((2,), (2,), (), ())
    assert partition_of(image).leader == 2


def test_another_order_of_the_same_replicas() -> None:
    image, code, _ = reassign(start(), (3, 2, 1))
    assert code is ErrorCode.none
    assert shape(partition_of(image)) == ((3, 2, 1), (1, 2, 3), (), ())
    assert (partition_of(image).leader, partition_of(image).leader_epoch) == (1, 5)


def test_a_reassignment_can_be_cancelled() -> None:
    image, _, _ = reassign(start(), (4, 5, 1))
    image = in_sync(image, 1, 2, 3, 4)
    image, code, _ = reassign(image, None)
    assert code is ErrorCode.none
    assert shape(partition_of(image)) == ((1, 2, 3), (1, 2, 3), (), ())
    image, code, message = reassign(image, None)
    assert (code, message) == (ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")


def test_a_cancel_that_would_lose_records_needs_leave() -> None:
    partition: dict[str, Any] = {"replicas": (4, 1), "isr": (4,), "adding_replicas": (4,), "removing_replicas": (1,)}
    image = with_partitions(cluster(1, 4), "t", partition)
    _, code, message = reassign(image, None)
    assert code is ErrorCode.invalid_replica_assignment
    assert message == (
        "Unable to revert partition assignment for t:0 because it would require an unclean leader election."
    )
    image = with_partitions(cluster(1, 4), "t", partition, unclean_leader_election_enable="true")
    image, code, _ = reassign(image, None)
    assert (code, shape(partition_of(image))) == (ErrorCode.none, ((1,), (1,), (), ()))
    assert (partition_of(image).leader, partition_of(image).leader_recovery_state) == (1, RECOVERING)


def test_a_cancel_needs_a_former_replica_that_can_lead() -> None:
    partition: dict[str, Any] = {"replicas": (4, 1), "isr": (4,), "adding_replicas": (4,), "removing_replicas": (1,)}
    unclean = {"unclean_leader_election_enable": "true"}
    image = with_partitions(cluster(1, 4, fenced=[1]), "t", partition, **unclean)
    _, code, message = reassign(image, None)
    assert (code, message) == (
        ErrorCode.invalid_replica_assignment,
        "Unable to revert partition assignment for t:0 because none of the former replicas can lead.",
    )
    # With eligible replicas an empty ISR is no lie.
    image = with_partitions(cluster(1, 4, fenced=[1], features=ELR_ON), "t", partition, **unclean)
    image, code, _ = reassign(image, None)
    assert (code, shape(partition_of(image))) == (ErrorCode.none, ((1,), (), (), ()))


def test_a_cancel_to_an_eligible_replica_is_clean() -> None:
    image = with_partitions(
        cluster(1, 4, features=ELR_ON),
        "t",
        {"replicas": (4, 1), "isr": (4,), "adding_replicas": (4,), "eligible_leader_replicas": (1,)},
        min_insync_replicas="2",
    )
    image, code, _ = reassign(image, None)
    assert (code, shape(partition_of(image))) == (ErrorCode.none, ((1,), (1,), (), ()))
    assert (partition_of(image).leader, partition_of(image).leader_recovery_state) == (1, 0)


def test_a_partition_without_anybody_in_sync_can_go_back() -> None:
    image = with_partitions(
        cluster(1, 4, features=ELR_ON), "t", {"replicas": (4, 1), "isr": (), "leader": -1, "adding_replicas": (4,)}
    )
    image, code, _ = reassign(image, None)
    assert (code, shape(partition_of(image))) == (ErrorCode.none, ((1,), (), (), ()))


def test_a_cancel_needs_something_to_go_back_to() -> None:
    image = with_partitions(cluster(4), "t", {"replicas": (4,), "adding_replicas": (4,)})
    _, code, _ = reassign(image, None)
    assert code is ErrorCode.invalid_replica_assignment


def test_a_reassignment_aimed_anew_can_still_be_cancelled() -> None:
    image, _, _ = reassign(start(), (4, 2, 3))
    image, code, _ = reassign(image, (5, 2, 3))
    assert code is ErrorCode.none
    assert shape(partition_of(image)) == ((5, 2, 3, 1), (1, 2, 3), (5,), (1,))
    assert partition_of(image).leader_epoch == 6
    cancelled, _, _ = reassign(image, None)
    assert shape(partition_of(cancelled)) == ((2, 3, 1), (1, 2, 3), (), ())
    image = in_sync(image, 1, 2, 3, 5)
    assert shape(partition_of(image)) == ((5, 2, 3), (2, 3, 5), (), ())


def test_a_replica_of_the_first_aim_that_alone_is_in_sync_stays_until_it_is_replaced() -> None:
    image = with_partitions(
        cluster(1, 4, 5), "t", {"replicas": (4, 1), "isr": (4,), "adding_replicas": (4,), "removing_replicas": (1,)}
    )
    image, code, _ = reassign(image, (5,))
    assert (code, shape(partition_of(image))) == (ErrorCode.none, ((5, 1, 4), (4,), (5,), (1, 4)))
    assert shape(partition_of(in_sync(image, 4, 5))) == ((5,), (5,), (), ())


def test_a_second_aim_may_keep_what_the_first_wanted_to_drop() -> None:
    image, _, _ = reassign(start(), (4, 2, 3))
    image, _, _ = reassign(image, (1, 4, 2, 3))
    assert shape(partition_of(image)) == ((1, 4, 2, 3), (1, 2, 3), (4,), ())
    image = in_sync(image, 1, 2, 3, 4)
    assert shape(partition_of(image)) == ((1, 4, 2, 3), (1, 2, 3, 4), (), ())


@pytest.mark.parametrize(
    ("replicas", "code", "message"),
    [
        ((), ErrorCode.invalid_replica_assignment, "The manual partition assignment includes an empty replica list."),
        (
            (1, 1),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            (1, 9),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ],
)
def test_refused_replicas(replicas: tuple[int, ...], code: ErrorCode, message: str) -> None:
    image, found, text = reassign(start(), replicas)
    assert (found, text, image.offset) == (code, message, start().offset)


def test_the_replication_factor_may_be_pinned() -> None:
    pinned = {"allow_replication_factor_change": False}
    _, code, message = reassign(start(), (1, 2), **pinned)
    assert (code, message) == (
        ErrorCode.invalid_replication_factor,
        "The replication factor is changed from 3 to 2",
    )
    image, code, _ = reassign(start(), (4, 5, 1), **pinned)
    assert code is ErrorCode.none
    # Five replicas are there for now, three are meant.
    assert reassign(image, (1, 2, 3), **pinned)[1] is ErrorCode.none
    assert reassign(image, (1, 2, 3, 4, 5), **pinned)[1] is ErrorCode.invalid_replication_factor


@pytest.mark.parametrize(
    ("topic", "index", "message"),
    [("nope", 0, "Unable to find a topic named nope."), ("t", 7, "Unable to find partition t:7.")],
)
def test_unknown_partitions(topic: str, index: int, message: str) -> None:
    outcome = alter_reassignments(start(), DEFAULT_RULES, [Reassignment(topic, index, (1,))])
    (result,) = outcome.result
    assert (result.verdict.error_code, result.verdict.message) == (ErrorCode.unknown_topic_or_partition, message)


def test_a_bad_reassignment_does_not_stop_the_others() -> None:
    outcome = alter_reassignments(start(), DEFAULT_RULES, [Reassignment("t", 1, (1,)), Reassignment("t", 0, (4,))])
    assert [each.verdict.error_code for each in outcome.result] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
    ]
    assert len(outcome.records) == 1


def test_what_is_under_way_is_listed() -> None:
    image = with_partitions(start(), "u", {"replicas": (1, 2)})
    assert list_reassignments(image, None) == []
    image, _, _ = reassign(image, (4, 1))
    ongoing = OngoingReassignment("t", 0, (4, 1, 2, 3), (4,), (2, 3))
    assert list_reassignments(image, None) == [ongoing]
    assert list_reassignments(image, [("t", 0), ("t", 9), ("u", 0), ("nope", 0)]) == [ongoing]
    assert list_reassignments(image, [("u", 0)]) == []
