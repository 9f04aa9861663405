"""The life of one replica move: which step follows which, and what a cancellation or a failure at each step means.

    COPYING → SYNCING → ASSIGNING → CLOSING_IN → MARKING → HOLDING → COPYING_TAIL
            → RENAMING → REOPENING → RETIRING → CLEARING → ENDED

The core decides only: it gets what happened and returns what to do next. The shell that carries that out feeds it one
event at a time, and only while no work is under way. Until the future log has its final name the source is the replica
and everything can be undone; from then on the move is completed, because both copies are the same and the marker says
which one counts (KIP-113, KIP-858).
"""

from __future__ import annotations

from typing import Final

from crabka.broker.logdirs.move_events import (
    Assigned,
    AssignedBack,
    Cancelled,
    Copied,
    Finish,
    FutureRenamed,
    Held,
    Marked,
    MarkerRemoved,
    MoveAction,
    MoveEvent,
    MoveOutcome,
    MoveState,
    Reopened,
    ReopenFailed,
    SourceFailed,
    SourceRetired,
    Stopped,
    Suspended,
    Synced,
    TailCopied,
    TargetFailed,
    TargetFull,
    Todo,
)
from crabka.errors import InvariantError

# What is copied and synced while appends wait: all the rest is durable before.
MAX_TAIL_BYTES: Final = 1024 * 1024

# States in which the source is the replica, and nothing but the future log and the marker shows the move.
_BEFORE_RENAME: Final = frozenset(
    {
        MoveState.COPYING,
        MoveState.SYNCING,
        MoveState.ASSIGNING,
        MoveState.CLOSING_IN,
        MoveState.MARKING,
        MoveState.HOLDING,
        MoveState.COPYING_TAIL,
    }
)


class MovePlan:
    """The state of one move. `begin` gives the first thing to do, `step` what follows from an event."""

    def __init__(self) -> None:
        self.state = MoveState.COPYING
        self.since_ms = 0
        self._may_be_assigned = False
        self._may_be_marked = False
        self._is_held = False
        # What remains to be done while undoing, behind the answer of the controller.
        self._after_undo: list[Todo] = []

    @property
    def is_bound_for_target(self) -> bool:
        """Whether the controller is to know the target as the place of the replica."""
        return self._may_be_assigned and self.state not in (MoveState.UNDOING, MoveState.ENDED)

    @property
    def can_turn_back(self) -> bool:
        """Whether a cancellation still leaves the replica where it was."""
        return self.state in _BEFORE_RENAME

    def begin(self, now_ms: int) -> list[Todo]:
        """Start copying."""
        self.since_ms = now_ms
        return [MoveAction.COPY]

    def step(self, event: MoveEvent, now_ms: int) -> list[Todo]:
        """Take in what happened and return what to do; nothing if that changes nothing."""
        before = self.state
        if before is MoveState.ENDED:
            return []
        todo = self._decide(event)
        if self.state is not before:
            self.since_ms = now_ms
        return todo

    def _decide(self, event: MoveEvent) -> list[Todo]:
        match event:
            case Cancelled(reason):
                return self._turn_back(MoveOutcome.CANCELLED, reason)
            case TargetFull(reason):
                return self._turn_back(MoveOutcome.FAILED, reason)
            case TargetFailed(reason):
                return self._on_target_failed(reason)
            case SourceFailed(reason):
                return self._on_source_failed(reason)
            case Stopped():
                return self._on_stopped()
            case Suspended():
                return self._on_suspended()
            case _:
                return self._go_on(event)

    # -- forward -------------------------------------------------------------------------------------------------

    def _go_on(self, event: MoveEvent) -> list[Todo]:
        match self.state, event:
            case ((MoveState.COPYING | MoveState.CLOSING_IN), Copied(_, is_caught_up)):
                return self._copied(is_caught_up=is_caught_up)
            case MoveState.SYNCING, Synced(remaining):
                return self._synced(remaining)
            case MoveState.ASSIGNING, Assigned():
                return self._to(MoveState.CLOSING_IN, MoveAction.COPY)
            case MoveState.CLOSING_IN, Synced(remaining):
                return self._closed_in(remaining)
            case MoveState.MARKING, Marked():
                return self._to(MoveState.HOLDING, MoveAction.HOLD)
            case MoveState.HOLDING, Held(remaining):
                return self._held(remaining)
            case MoveState.COPYING_TAIL, TailCopied():
                return self._to(MoveState.RENAMING, MoveAction.RENAME_FUTURE)
            case MoveState.RENAMING, FutureRenamed():
                return self._to(MoveState.REOPENING, MoveAction.REOPEN)
            case MoveState.REOPENING, Reopened():
                return self._to(MoveState.RETIRING, MoveAction.RETIRE_SOURCE)
            case MoveState.REOPENING, ReopenFailed(reason):
                return self._undo(MoveOutcome.FAILED, reason, first=[MoveAction.RENAME_BACK])
            case MoveState.RETIRING, SourceRetired():
                self._is_held = False
                return self._to(MoveState.CLEARING, MoveAction.RELEASE, MoveAction.CLEAR_MARKER)
            case MoveState.CLEARING, MarkerRemoved():
                return self._end(MoveOutcome.MOVED)
            case MoveState.UNDOING, AssignedBack():
                todo, self._after_undo = self._after_undo, []
                return self._ending(todo)
        raise InvariantError(f"a move that is {self.state.value} cannot take {event}")

    def _copied(self, *, is_caught_up: bool) -> list[Todo]:
        if not is_caught_up:
            return [MoveAction.COPY]
        if self.state is MoveState.CLOSING_IN:
            return [MoveAction.SYNC]
        return self._to(MoveState.SYNCING, MoveAction.SYNC)

    def _synced(self, remaining_bytes: int) -> list[Todo]:
        if remaining_bytes > MAX_TAIL_BYTES:
            return self._to(MoveState.COPYING, MoveAction.COPY)
        self._may_be_assigned = True
        return self._to(MoveState.ASSIGNING, MoveAction.ASSIGN)

    def _closed_in(self, remaining_bytes: int) -> list[Todo]:
        if remaining_bytes > MAX_TAIL_BYTES:
            return [MoveAction.COPY]
        self._may_be_marked = True
        return self._to(MoveState.MARKING, MoveAction.WRITE_MARKER)

    def _held(self, remaining_bytes: int) -> list[Todo]:
        if remaining_bytes > MAX_TAIL_BYTES:
            # Too much came before the turn did: appends must not wait for that. The marker stays, it means nothing yet.
            return self._to(MoveState.CLOSING_IN, MoveAction.RELEASE, MoveAction.COPY)
        self._is_held = True
        return self._to(MoveState.COPYING_TAIL, MoveAction.COPY_TAIL)

    # -- back ----------------------------------------------------------------------------------------------------

    def _turn_back(self, outcome: MoveOutcome, reason: str) -> list[Todo]:
        if not self.can_turn_back:
            # Too late, or on the way back already; a later request moves the replica again.
            return []
        return self._undo(outcome, reason)

    def _undo(self, outcome: MoveOutcome, reason: str, *, first: list[Todo] | None = None) -> list[Todo]:
        """Stay in the source. The future log goes last: while the metadata place the replica there, it must not."""
        todo: list[Todo] = list(first or [])
        after: list[Todo] = []
        if first:
            # A second copy with a final name may be there: no append runs before the metadata ignore it.
            after += self._release()
            after += self._drop_marker()
        else:
            todo += self._release()
            todo += self._drop_marker()
        after += [MoveAction.DELETE_FUTURE, Finish(outcome, reason)]
        return self._assign_back(todo, after)

    def _assign_back(self, todo: list[Todo], after: list[Todo]) -> list[Todo]:
        if not self._may_be_assigned:
            return self._ending([*todo, *after])
        self.state = MoveState.UNDOING
        self._after_undo = after
        return [*todo, MoveAction.ASSIGN_BACK]

    def _on_target_failed(self, reason: str) -> list[Todo]:
        finish = Finish(MoveOutcome.FAILED, reason)
        if self.state in _BEFORE_RENAME:
            return self._assign_back(self._release(), [finish])
        if self.state is MoveState.UNDOING:
            self._after_undo = [*self._release(), finish]
            return [MoveAction.ASSIGN_BACK]
        if self.state in (MoveState.RENAMING, MoveState.REOPENING):
            # Whether the copy there has its final name, is unknown: the metadata must say first that it is none.
            return self._assign_back([], [*self._release(), finish])
        # The replica was there.
        return self._ending([*self._release(), finish])

    def _on_source_failed(self, reason: str) -> list[Todo]:
        if self.state in (MoveState.RENAMING, MoveState.REOPENING):
            # The target has everything and the marker: the next start makes the replica of it.
            return self._ending([*self._release(), Finish(MoveOutcome.FAILED, reason)])
        if self.state is MoveState.RETIRING:
            # The replica is in the target; what is left of the source is dealt with when its disk is back.
            return self._ending([*self._release(), Finish(MoveOutcome.MOVED, reason)])
        if self.state is MoveState.CLEARING:
            return []
        if self.state is MoveState.UNDOING or self._may_be_assigned:
            # The metadata may place the replica where there is but a part of it: that part says so.
            return self._ending([*self._release(), Finish(MoveOutcome.FAILED, reason)])
        return self._ending([MoveAction.DELETE_FUTURE, Finish(MoveOutcome.FAILED, reason)])

    def _on_stopped(self) -> list[Todo]:
        finish = Finish(MoveOutcome.STOPPED)
        if self.state in _BEFORE_RENAME or self.state is MoveState.UNDOING:
            return self._ending([*self._release(), *self._drop_marker(), MoveAction.DELETE_FUTURE, finish])
        if self.state is MoveState.CLEARING:
            return []
        return self._ending([*self._release(), MoveAction.DELETE_FINAL, *self._drop_marker(), finish])

    def _on_suspended(self) -> list[Todo]:
        finish = Finish(MoveOutcome.SUSPENDED)
        if self.state in _BEFORE_RENAME:
            return self._ending([*self._release(), *self._drop_marker(), finish])
        if self.state is MoveState.UNDOING:
            # With the next start the replica is found in the source, and that is reported.
            return self._ending([*self._release(), finish])
        return []

    # -- helpers -------------------------------------------------------------------------------------------------

    def _release(self) -> list[Todo]:
        """Let appends go on, now or, if that was put off until the way back is reported, at last."""
        held = self._is_held or MoveAction.RELEASE in self._after_undo
        self._is_held = False
        self._after_undo = [each for each in self._after_undo if each is not MoveAction.RELEASE]
        return [MoveAction.RELEASE] if held else []

    def _drop_marker(self) -> list[Todo]:
        marked, self._may_be_marked = self._may_be_marked, False
        return [MoveAction.DROP_MARKER] if marked else []

    def _to(self, state: MoveState, *todo: Todo) -> list[Todo]:
        self.state = state
        return list(todo)

    def _end(self, outcome: MoveOutcome) -> list[Todo]:
        return self._ending([Finish(outcome)])

    def _ending(self, todo: list[Todo]) -> list[Todo]:
        self.state = MoveState.ENDED
        return todo
