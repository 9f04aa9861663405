from __future__ import annotations

import random

from crabka.broker.logdirs import move_events as events
from crabka.broker.logdirs.move_events import WORK, Finish, MoveAction, MoveEvent
from crabka.broker.logdirs.move_plan import MAX_TAIL_BYTES, MovePlan

MUCH = MAX_TAIL_BYTES + 1
# What work can end with.
RESULTS: dict[MoveAction, list[MoveEvent]] = {
    MoveAction.COPY: [events.Copied(MUCH, is_caught_up=False), events.Copied(0, is_caught_up=True)],
    MoveAction.SYNC: [events.Synced(MUCH), events.Synced(0)],
    MoveAction.ASSIGN: [events.Assigned()],
    MoveAction.WRITE_MARKER: [events.Marked()],
    MoveAction.HOLD: [events.Held(MUCH), events.Held(0)],
    MoveAction.COPY_TAIL: [events.TailCopied()],
    MoveAction.RENAME_FUTURE: [events.FutureRenamed()],
    MoveAction.REOPEN: [events.Reopened(), events.ReopenFailed("x")],
    MoveAction.RETIRE_SOURCE: [events.SourceRetired()],
    MoveAction.CLEAR_MARKER: [events.MarkerRemoved()],
    MoveAction.ASSIGN_BACK: [events.AssignedBack()],
}
TROUBLE: list[MoveEvent] = [
    events.Cancelled(),
    events.TargetFull("x"),
    events.TargetFailed("x"),
    events.SourceFailed("x"),
    events.Stopped(),
    events.Suspended(),
]


def test_whatever_happens_there_is_one_thing_to_wait_for_until_the_end(rng: random.Random) -> None:
    assert set(RESULTS) == WORK
    for _ in range(2_000):
        plan = MovePlan()
        todo = plan.begin(0)
        steps: list[events.Todo] = list(todo)
        while not isinstance(steps[-1], Finish):
            # All but the last are done at once.
            assert isinstance(steps[-1], MoveAction)
            assert steps[-1] in WORK
            assert not any(isinstance(step, Finish) or step in WORK for step in steps[:-1])
            trouble = plan.step(rng.choice(TROUBLE), 1) if rng.random() < 0.1 else []
            # Trouble that changes nothing leaves the work to its end.
            steps = trouble or plan.step(rng.choice(RESULTS[steps[-1]]), 1)
        assert not any(isinstance(step, Finish) or step in WORK for step in steps[:-1])
