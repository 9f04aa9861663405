"""Elections that an operator asks for, and those that the controller holds by itself."""

from __future__ import annotations

import pytest

from crabka.controller.decisions.control_view import DEFAULT_RULES, ControllerRules
from crabka.controller.decisions.elect_leaders import (
    ElectionType,
    balance_leaders,
    elect_leaders,
    elect_unclean_leaders,
)
from crabka.controller.decisions.partition_change import RECOVERING
from crabka.errors import OperationError
from crabka.metadata.image import MetadataImage
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import ELR_ON, applied, cluster, partition_of, with_partitions


def some() -> MetadataImage:
    return with_partitions(
        cluster(1, 2, 3, fenced=[3]),
        "t",
        {"replicas": (1, 2), "leader": 2},
        {"replicas": (1, 2)},
        {"replicas": (3, 2), "isr": (2,)},
        {"replicas": (3, 1), "isr": (3,), "leader": -1},
    )


def elect(
    image: MetadataImage, kind: int, partitions: list[tuple[str, int]] | None
) -> tuple[MetadataImage, dict[tuple[str, int], ErrorCode]]:
    outcome = elect_leaders(image, DEFAULT_RULES, kind, partitions)
    found = {(each.topic, each.partition_id): each.verdict.error_code for each in outcome.result}
    return applied(image, outcome.records), found


def test_preferred_leaders() -> None:
    wanted = [("t", index) for index in range(5)] + [("nope", 0)]
    image, found = elect(some(), ElectionType.PREFERRED, wanted)
    assert found == {
        ("t", 0): ErrorCode.none,
        ("t", 1): ErrorCode.election_not_needed,
        ("t", 2): ErrorCode.preferred_leader_not_available,
        ("t", 3): ErrorCode.preferred_leader_not_available,
        ("t", 4): ErrorCode.unknown_topic_or_partition,
        ("nope", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert (partition_of(image, "t", 0).leader, partition_of(image, "t", 0).leader_epoch) == (1, 6)


def test_an_unclean_leader_on_demand() -> None:
    image, found = elect(some(), ElectionType.UNCLEAN, [("t", 0), ("t", 3)])
    assert found == {("t", 0): ErrorCode.election_not_needed, ("t", 3): ErrorCode.none}
    saved = partition_of(image, "t", 3)
    assert (saved.leader, saved.isr, saved.leader_recovery_state) == (1, (1,), RECOVERING)


def test_no_replica_is_left_to_lead() -> None:
    image = with_partitions(cluster(1, fenced=[1]), "t", {"replicas": (1,), "leader": -1})
    assert elect(image, ElectionType.UNCLEAN, [("t", 0)])[1] == {("t", 0): ErrorCode.eligible_leaders_not_available}


def test_all_partitions_reports_only_what_was_tried() -> None:
    _, found = elect(some(), ElectionType.PREFERRED, None)
    assert set(found) == {("t", 0), ("t", 2), ("t", 3)}


def test_a_partition_named_twice_is_elected_once() -> None:
    outcome = elect_leaders(some(), DEFAULT_RULES, ElectionType.PREFERRED, [("t", 0), ("t", 0)])
    assert [each.verdict.error_code for each in outcome.result] == [ErrorCode.none, ErrorCode.election_not_needed]
    assert len(outcome.records) == 1


def test_an_unknown_kind_of_election() -> None:
    with pytest.raises(OperationError, match="Unknown election type 2") as caught:
        elect_leaders(some(), DEFAULT_RULES, 2, None)
    assert caught.value.error_code is ErrorCode.invalid_request


def test_the_controller_gives_partitions_back_to_their_preferred_leaders_in_turns() -> None:
    image = with_partitions(cluster(1, 2), "t", *[{"replicas": (1, 2), "leader": 2}] * 3)
    outcome = balance_leaders(image, DEFAULT_RULES, max_elections=2)
    assert outcome.result
    image = applied(image, outcome.records)
    assert [partition_of(image, "t", index).leader for index in range(3)] == [1, 1, 2]
    outcome = balance_leaders(image, DEFAULT_RULES, max_elections=2)
    assert not outcome.result
    image = applied(image, outcome.records)
    assert balance_leaders(image, DEFAULT_RULES, max_elections=2).records == []


def test_balancing_leaves_alone_what_cannot_be_helped() -> None:
    outcome = balance_leaders(some(), DEFAULT_RULES)
    assert [record.partition_id for record in outcome.records] == [0]


def test_the_controller_elects_unclean_leaders_where_a_topic_allows_it() -> None:
    image = some()
    assert elect_unclean_leaders(image, DEFAULT_RULES).records == []
    outcome = elect_unclean_leaders(image, ControllerRules(unclean_leader_election=True))
    assert [(record.partition_id, record.leader) for record in outcome.records] == [(3, 1)]
    assert not outcome.result
    assert elect_unclean_leaders(image, ControllerRules(unclean_leader_election=True), max_elections=0).result


def test_the_last_known_leader_is_elected_without_leave_for_unclean_elections() -> None:
    image = with_partitions(
        cluster(1, 2, features=ELR_ON), "t", {"replicas": (1, 2), "isr": (), "leader": -1, "last_known_elr": (2,)}
    )
    image, found = elect(image, ElectionType.PREFERRED, [("t", 0)])
    assert found == {("t", 0): ErrorCode.none}
    assert (partition_of(image).leader, partition_of(image).leader_recovery_state) == (2, RECOVERING)
