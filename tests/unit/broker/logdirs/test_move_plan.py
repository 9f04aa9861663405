"""What follows from what in a move: the scripts in `move_plan/` show events, states and what there is to do.

`begin` starts a move, `at STATE` brings a new one to a state on the straight way, an event such as `synced tail` steps
it. `each EVENT...` steps a new move from every state of the straight way with the same events, until it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from crabka.broker.logdirs.move_events import Finish, MoveEvent, MoveState, Todo
from crabka.broker.logdirs.move_plan import MAX_TAIL_BYTES, MovePlan
from crabka.errors import InvariantError
from tests.support.scripts import Command, check_script, script_files

EVENTS = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower(): kind for kind in get_args(MoveEvent)}
SIZES = {"tail": MAX_TAIL_BYTES, "too-much": MAX_TAIL_BYTES + 1}
STRAIGHT_ON = [
    "copied 900",
    "copied 0 caught-up",
    "synced tail",
    "assigned",
    "copied 0 caught-up",
    "synced tail",
    "marked",
    "held tail",
    "tail-copied",
    "future-renamed",
    "reopened",
    "source-retired",
    "marker-removed",
]


def event_of(command: Command) -> MoveEvent:
    kind = EVENTS[command.name]
    values: list[object] = [
        SIZES[word] if word in SIZES else int(word) for word in command.words if word != "caught-up"
    ]
    if command.name == "copied":
        values.append("caught-up" in command.words)
    if command.name in ("target-full", "target-failed", "source-failed", "reopen-failed"):
        values.append("an error")
    event: MoveEvent = kind(*values)
    return event


def shown(todo: list[Todo]) -> str:
    return ", ".join(
        f"end as {each.outcome.value}{f' ({each.reason})' if each.reason else ''}"
        if isinstance(each, Finish)
        else each.value
        for each in todo
    )


def reached(count: int) -> MovePlan:
    """Return a move after some steps of the straight way."""
    plan = MovePlan()
    plan.begin(0)
    for line in STRAIGHT_ON[:count]:
        plan.step(event_of(Command.parse(line)), 0)
    return plan


class MoveScript:
    def __init__(self) -> None:
        self.plan = MovePlan()

    def run(self, command: Command) -> Iterator[str]:
        match command.name:
            case "begin":
                self.plan = MovePlan()
                yield self.line(self.plan.begin(0))
            case "at":
                moves = [reached(count) for count in range(len(STRAIGHT_ON))]
                self.plan = next(each for each in moves if each.state is MoveState(" ".join(command.words)))
                yield self.line([])
            case "each":
                for count, last in enumerate(["begin", *STRAIGHT_ON[:-1]]):
                    self.plan = reached(count)
                    start = f"{self.plan.state.value} ({last.partition(' ')[0]})"
                    yield " -> ".join([start, *self.until_the_end(command.words)])
            case _:
                yield self.step(command)

    def until_the_end(self, words: tuple[str, ...]) -> Iterator[str]:
        for word in words:
            before = self.plan.state
            if before is MoveState.ENDED:
                return
            todo = self.plan.step(event_of(Command(word)), 0)
            yield f"{self.plan.state.value}: {shown(todo)}" if todo else "nothing"
            if self.plan.state is before:
                return

    def step(self, command: Command) -> str:
        try:
            return self.line(self.plan.step(event_of(command), 0))
        except InvariantError as error:
            return f"InvariantError: {error}"

    def line(self, todo: list[Todo]) -> str:
        plan = self.plan
        place = "target" if plan.is_bound_for_target else "source"
        facts = f"{plan.state.value} ({'can' if plan.can_turn_back else 'cannot'} turn back, {place})"
        return f"{facts} {shown(todo) or '-'}"


@script_files(Path(__file__).parent / "move_plan")
def test_a_move_follows_its_script(path: Path, rewrite: bool) -> None:
    check_script(path, MoveScript().run, rewrite=rewrite)


def test_a_move_knows_since_when_it_is_in_its_state() -> None:
    plan = MovePlan()
    plan.begin(5)
    plan.step(event_of(Command("copied", ("900",))), 7)
    assert plan.since_ms == 5
    plan.step(event_of(Command("copied", ("0", "caught-up"))), 9)
    assert plan.since_ms == 9
