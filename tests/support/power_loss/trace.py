"""The trace of a simulated run, printed when an invariant breaks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT_LINES = 120


class BrokenInvariantError(AssertionError):
    """Something that must always be true is not; the name says which invariant, the trace what led there."""

    def __init__(self, name: str, message: str, trace: str) -> None:
        super().__init__(f"[{name}] {message}\nlast events (virtual seconds):\n{trace}")
        self.name = name
        self.message = message


class Trace:
    """The last events with their virtual times."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def note(self, event: str) -> None:
        """Remember an event."""
        self._lines.append(f"{self._now_s():10.4f}  {event}")

    def require(self, condition: bool, name: str, message: str) -> None:
        """Raise BrokenInvariantError unless the condition holds."""
        if not condition:
            raise BrokenInvariantError(name, message, "\n".join(self._lines))
