"""Members as values."""

from __future__ import annotations

from crabka.broker.groups.consumer.member import (
    ConsumerMember,
    CurrentAssignment,
    ReconciliationState,
    is_subset,
    numbers_of,
)
from tests.support.coordinators.consumer_groups import topic_id

T = topic_id(0)


def test_states_of_later_versions_are_unknown() -> None:
    assert ReconciliationState(2) is ReconciliationState.UNRELEASED_PARTITIONS
    assert ReconciliationState(77) is ReconciliationState.UNKNOWN


def test_a_member_that_moves_remembers_its_epoch() -> None:
    moved = CurrentAssignment(epoch=3).moved_to(5)
    assert (moved.epoch, moved.previous_epoch) == (5, 3)
    assert ConsumerMember("m", current=moved).is_reconciled_to(5)
    assert not ConsumerMember("m", current=moved).is_reconciled_to(6)


def test_what_is_not_reported_may_be_more_than_was_assigned() -> None:
    assigned = {T: {0: 1, 2: 1}}
    assert numbers_of(assigned) == {T: {0, 2}}
    assert is_subset({T: frozenset({2})}, assigned)
    assert not is_subset({T: frozenset({1})}, assigned)
    assert not is_subset({topic_id(1): frozenset()}, assigned)
    assert not is_subset(None, assigned)
