"""What follows from what in a move, step by step."""

from __future__ import annotations

import pytest

from crabka.broker.logdirs import move_events as events
from crabka.broker.logdirs.move_events import Finish, MoveAction, MoveOutcome, MoveState
from crabka.broker.logdirs.move_plan import MAX_TAIL_BYTES, MovePlan
from crabka.errors import InvariantError

FORWARD: list[tuple[events.MoveEvent, list[events.Todo]]] = [
    (events.Copied(900, is_caught_up=False), [MoveAction.COPY]),
    (events.Copied(0, is_caught_up=True), [MoveAction.SYNC]),
    (events.Synced(10), [MoveAction.ASSIGN]),
    (events.Assigned(), [MoveAction.COPY]),
    (events.Copied(0, is_caught_up=True), [MoveAction.SYNC]),
    (events.Synced(10), [MoveAction.WRITE_MARKER]),
    (events.Marked(), [MoveAction.HOLD]),
    (events.Held(10), [MoveAction.COPY_TAIL]),
    (events.TailCopied(), [MoveAction.RENAME_FUTURE]),
    (events.FutureRenamed(), [MoveAction.REOPEN]),
    (events.Reopened(), [MoveAction.RETIRE_SOURCE]),
    (events.SourceRetired(), [MoveAction.RELEASE, MoveAction.CLEAR_MARKER]),
    (events.MarkerRemoved(), [Finish(MoveOutcome.MOVED)]),
]

CANCELLED = Finish(MoveOutcome.CANCELLED, "cancelled")
BACK = [MoveAction.DELETE_FUTURE, CANCELLED]


def plan_after(steps: int) -> MovePlan:
    plan = MovePlan()
    assert plan.begin(0) == [MoveAction.COPY]
    for event, _ in FORWARD[:steps]:
        plan.step(event, 0)
    return plan


def test_a_move_goes_through_all_steps_in_order() -> None:
    plan = MovePlan()
    assert plan.begin(5) == [MoveAction.COPY]
    for event, todo in FORWARD:
        assert plan.step(event, 7) == todo
    assert (plan.state, plan.since_ms) == (MoveState.ENDED, 7)
    assert plan.step(events.Cancelled(), 8) == []


@pytest.mark.parametrize("steps", range(3))
def test_a_move_that_the_controller_knows_nothing_of_is_cancelled_at_once(steps: int) -> None:
    assert plan_after(steps).step(events.Cancelled(), 0) == BACK


@pytest.mark.parametrize(
    ("steps", "first"),
    [
        (3, []),
        (4, []),
        (6, [MoveAction.DROP_MARKER]),
        (7, [MoveAction.DROP_MARKER]),
        (8, [MoveAction.RELEASE, MoveAction.DROP_MARKER]),
    ],
)
def test_one_that_it_knows_of_is_assigned_back_before_the_copy_goes(steps: int, first: list[events.Todo]) -> None:
    plan = plan_after(steps)
    assert plan.can_turn_back
    assert plan.is_bound_for_target
    assert plan.step(events.Cancelled(), 0) == [*first, MoveAction.ASSIGN_BACK]
    assert not plan.is_bound_for_target
    assert plan.step(events.Cancelled(), 0) == []
    assert plan.step(events.AssignedBack(), 0) == BACK


@pytest.mark.parametrize("steps", range(9, 13))
def test_from_the_final_name_on_a_move_is_completed(steps: int) -> None:
    plan = plan_after(steps)
    assert not plan.can_turn_back
    assert plan.step(events.Cancelled(), 0) == []
    assert plan.step(events.Suspended(), 0) == []
    for event, todo in FORWARD[steps:]:
        assert plan.step(event, 0) == todo


def test_a_copy_that_falls_behind_goes_on_copying() -> None:
    assert plan_after(2).step(events.Synced(MAX_TAIL_BYTES + 1), 0) == [MoveAction.COPY]
    assert plan_after(5).step(events.Synced(MAX_TAIL_BYTES + 1), 0) == [MoveAction.COPY]
    assert plan_after(7).step(events.Held(MAX_TAIL_BYTES + 1), 0) == [MoveAction.RELEASE, MoveAction.COPY]


def test_a_full_target_ends_the_move_as_a_cancellation_does() -> None:
    assert plan_after(0).step(events.TargetFull("full"), 0) == [
        MoveAction.DELETE_FUTURE,
        Finish(MoveOutcome.FAILED, "full"),
    ]


def test_nothing_is_done_on_a_target_that_failed() -> None:
    failed = Finish(MoveOutcome.FAILED, "gone")
    assert plan_after(1).step(events.TargetFailed("gone"), 0) == [failed]
    plan = plan_after(8)
    assert plan.step(events.TargetFailed("gone"), 0) == [MoveAction.RELEASE, MoveAction.ASSIGN_BACK]
    assert plan.step(events.AssignedBack(), 0) == [failed]


@pytest.mark.parametrize("steps", [9, 10])
def test_appends_wait_until_the_controller_knows_that_a_renamed_copy_is_lost(steps: int) -> None:
    plan = plan_after(steps)
    assert plan.step(events.TargetFailed("gone"), 0) == [MoveAction.ASSIGN_BACK]
    assert plan.step(events.AssignedBack(), 0) == [MoveAction.RELEASE, Finish(MoveOutcome.FAILED, "gone")]


def test_a_target_that_fails_with_the_replica_in_it_takes_the_replica_along() -> None:
    expected = [MoveAction.RELEASE, Finish(MoveOutcome.FAILED, "gone")]
    assert plan_after(11).step(events.TargetFailed("gone"), 0) == expected


def test_a_copy_that_cannot_be_opened_loses_its_name_before_appends_go_on() -> None:
    plan = plan_after(10)
    assert plan.step(events.ReopenFailed("bad"), 0) == [MoveAction.RENAME_BACK, MoveAction.ASSIGN_BACK]
    assert plan.step(events.TargetFailed("gone"), 0) == [MoveAction.ASSIGN_BACK]
    assert plan.step(events.AssignedBack(), 0) == [MoveAction.RELEASE, Finish(MoveOutcome.FAILED, "gone")]


@pytest.mark.parametrize(
    ("steps", "todo"),
    [
        (1, [MoveAction.DELETE_FUTURE, Finish(MoveOutcome.FAILED, "gone")]),
        (4, [Finish(MoveOutcome.FAILED, "gone")]),
        (8, [MoveAction.RELEASE, Finish(MoveOutcome.FAILED, "gone")]),
        (9, [MoveAction.RELEASE, Finish(MoveOutcome.FAILED, "gone")]),
        (11, [MoveAction.RELEASE, Finish(MoveOutcome.MOVED, "gone")]),
        (12, []),
    ],
)
def test_a_source_that_fails_leaves_what_the_next_start_needs(steps: int, todo: list[events.Todo]) -> None:
    assert plan_after(steps).step(events.SourceFailed("gone"), 0) == todo


def test_a_partition_that_goes_takes_its_copy_along() -> None:
    stopped = Finish(MoveOutcome.STOPPED)
    assert plan_after(1).step(events.Stopped(), 0) == [MoveAction.DELETE_FUTURE, stopped]
    undoing = plan_after(4)
    undoing.step(events.Cancelled(), 0)
    assert undoing.step(events.Stopped(), 0) == [MoveAction.DELETE_FUTURE, stopped]
    assert plan_after(9).step(events.Stopped(), 0) == [
        MoveAction.RELEASE,
        MoveAction.DELETE_FINAL,
        MoveAction.DROP_MARKER,
        stopped,
    ]
    assert plan_after(12).step(events.Stopped(), 0) == []


def test_a_stop_of_the_node_leaves_the_copy_for_the_next_start() -> None:
    suspended = Finish(MoveOutcome.SUSPENDED)
    assert plan_after(1).step(events.Suspended(), 0) == [suspended]
    assert plan_after(8).step(events.Suspended(), 0) == [MoveAction.RELEASE, MoveAction.DROP_MARKER, suspended]
    undoing = plan_after(10)
    undoing.step(events.ReopenFailed("bad"), 0)
    assert undoing.step(events.Suspended(), 0) == [MoveAction.RELEASE, suspended]


def test_an_event_that_cannot_be_is_a_bug() -> None:
    with pytest.raises(InvariantError, match="copying cannot take"):
        MovePlan().step(events.Reopened(), 0)
