"""The story of a run: kept for a failure, printed as it goes for `--trace`."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.power_loss.trace import BrokenInvariantError, Trace


class ClusterTrace(Trace):
    """A trace with an optional listener."""

    def __init__(self, now_s: Callable[[], float], listener: Callable[[str], None] | None = None) -> None:
        super().__init__(now_s)
        self._listener = listener
        # The first violation: the task that found it may have no caller to report it to.
        self.broken: BrokenInvariantError | None = None

    def note(self, event: str) -> None:
        """Remember an event."""
        super().note(event)
        if self._listener is not None:
            self._listener(f"{self._now_s():10.4f}  {event}")

    def require(self, condition: bool, name: str, message: str) -> None:
        """Raise BrokenInvariantError unless the condition holds."""
        try:
            super().require(condition, name, message)
        except BrokenInvariantError as error:
            self.broken = self.broken or error
            raise
