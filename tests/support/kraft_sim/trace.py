"""A readable account of a run: kept short for a failure, printed as it goes for `--seed`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from crabka.kraft.actions import Action, PersistElection, RoleChanged
from crabka.kraft.events import Event, RequestReceived, ResponseReceived

if TYPE_CHECKING:
    from tests.support.kraft_sim.replica import SimulatedReplica

KEPT_LINES = 60


class QuorumTrace:
    """The last lines of a run, and a listener for all of them."""

    def __init__(self, now_ms: Callable[[], float], listener: Callable[[str], None] | None = None) -> None:
        self._now_ms = now_ms
        self._listener = listener
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)

    def note(self, text: str) -> None:
        """Something happened in the world."""
        self._add("    ", text)

    def event(self, replica: SimulatedReplica, event: Event) -> None:
        """A replica takes an event; its text is only made if there is a listener."""
        if self._listener is not None:
            what: object = event
            if isinstance(event, RequestReceived):
                what = event.request
            elif isinstance(event, ResponseReceived):
                what = event.response
            self._add(f"{replica.key!s:>6} <-", _short(what))

    def action(self, replica: SimulatedReplica, action: Action) -> None:
        """A replica acts."""
        if isinstance(action, RoleChanged):
            state = action.election
            text = f"{action.before.value} -> {action.after.value} in epoch {state.epoch} ({action.reason})"
            self._add(f"{replica.key!s:>6} ==", text)
        elif self._listener is not None:
            self._add(f"{replica.key!s:>6} ->", _short(action.state if isinstance(action, PersistElection) else action))

    def _add(self, who: str, text: str) -> None:
        line = f"{self._now_ms():9.1f} ms {who} {text}"
        self.lines.append(line)
        if self._listener is not None:
            self._listener(line)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 240 else text[:237] + "..."
