"""Steps of a member towards its target."""

from __future__ import annotations

import pytest

from crabka.broker.groups.consumer.member import CurrentAssignment, ReconciliationState
from crabka.broker.groups.consumer.reconcile import Goal, reconcile
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import topic_id

T = topic_id(0)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = ReconciliationState


def goal(*target: int, free: bool = True, epoch: int = 5, subscribed: bool = True) -> Goal:
    return Goal(epoch, {T: frozenset(target)} if target else {}, {T} if subscribed else set(), lambda *_: free)


def test_free_partitions_are_given_at_once() -> None:
    after = reconcile(CurrentAssignment(), goal(0, 1), {})
    assert (after.state, after.epoch, after.previous_epoch, after.assigned) == (STABLE, 5, 0, {T: {0: 5, 1: 5}})


def test_what_others_have_is_waited_for_in_the_new_epoch() -> None:
    after = reconcile(CurrentAssignment(4, assigned={T: {0: 3}}), goal(0, 1, free=False), {T: frozenset({0})})
    assert (after.state, after.epoch, after.assigned) == (UNRELEASED, 5, {T: {0: 3}})
    assert reconcile(after, goal(0, 1), {T: frozenset({0})}).assigned == {T: {0: 3, 1: 5}}


@pytest.mark.parametrize("owned", [None, {T: frozenset({0, 1})}])
def test_the_epoch_stays_until_the_member_reported_what_it_gave_up(owned: dict[object, frozenset[int]] | None) -> None:
    before = CurrentAssignment(4, assigned={T: {0: 4, 1: 4}})
    after = reconcile(before, goal(0), owned)  # type: ignore[arg-type] # the ids are right
    assert (after.state, after.epoch, after.assigned, after.revoking) == (UNREVOKED, 4, {T: {0: 4}}, {T: {1: 4}})
    assert reconcile(after, goal(0), None) == after
    done = reconcile(after, goal(0), {T: frozenset({0})})
    assert (done.state, done.epoch, done.assigned, done.revoking) == (STABLE, 5, {T: {0: 4}}, {})


def test_what_a_member_gave_up_itself_it_can_have_back() -> None:
    before = CurrentAssignment(4, 4, UNREVOKED, {}, {T: {1: 4}})
    assert reconcile(before, goal(1, free=False), {}).assigned == {T: {1: 5}}


def test_topics_that_are_not_subscribed_any_more_go_without_a_new_target() -> None:
    before = CurrentAssignment(5, assigned={T: {0: 5}})
    leaving = goal(0, subscribed=False)._replace(subscription_changed=True)
    assert reconcile(before, leaving, None).state is UNREVOKED
    assert reconcile(before, leaving, {}).assigned == {}
    assert reconcile(before, goal(0)._replace(subscription_changed=True), None) is before


def test_a_state_of_a_later_version_needs_a_new_start() -> None:
    unknown = CurrentAssignment(5, state=UNKNOWN)
    with pytest.raises(OperationError) as refused:
        reconcile(unknown, goal(0), None)
    assert refused.value.error_code is ErrorCode.fenced_member_epoch
    assert reconcile(unknown, goal(0), {}).state is STABLE
