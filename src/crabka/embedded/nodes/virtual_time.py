"""Time of a node that a test moves forward: all that is due by then happens at once, as after a machine has slept.

Node code reads the time from its clock port and waits on its loop, so both must move together. Clients do not: to them
nothing has passed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from crabka.runtime import SystemClock

# A broker on its own need not watch itself: to lose its session while it sleeps would only unsettle clients.
NO_SESSION_END: Final = {"broker.session.timeout.ms": str(2**31 - 1)}

# A timer wakes a task, which may wait for another one.
_TURNS_WITHOUT_INPUT: Final = 20
_TURNS_TO_ANSWER: Final = 5


class VirtualTime:
    """How far a broker is ahead of the machine, in all of its lives; a clock port."""

    def __init__(self) -> None:
        self._machine = SystemClock()
        self._ahead_ms = 0
        self._loop: _Loop | None = None

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._machine.now_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back."""
        return self._machine.monotonic_ms() + self._ahead_ms

    def processor_ns(self) -> int:
        """Return how long the calling thread has used a processor: moving the time takes none."""
        return self._machine.processor_ns()

    @property
    def ahead_s(self) -> float:
        """Return how far it is ahead, in seconds."""
        return self._ahead_ms / 1000

    async def advance_running(self, seconds: float) -> None:
        """Move forward on the loop that runs, after what has arrived before was answered."""
        if self._loop is not None:
            self._loop.hold_input()
        for _ in range(_TURNS_TO_ANSWER):
            await asyncio.sleep(0)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move forward; on the thread of a loop that runs with this time, if one does."""
        self._ahead_ms += round(seconds * 1000)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.hold_input()

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Return a loop whose timers follow this time."""
        self._loop = _Loop(self)
        return self._loop


class _Loop(asyncio.SelectorEventLoop):
    """Python's own loop: uvloop's timers cannot be moved."""

    def __init__(self, time: VirtualTime) -> None:
        self._virtual = time
        self._turns_without_input = 0
        super().__init__()

    def time(self) -> float:
        """Return the time that timers are compared with."""
        return super().time() + self._virtual.ahead_s

    def hold_input(self) -> None:
        """Let what is due run before what has arrived: a heartbeat of now must not save a session that is over."""
        self._turns_without_input = _TURNS_WITHOUT_INPUT

    def _process_events(self, event_list: Any) -> None:
        """Called by the loop with the descriptors that are ready; those that are left are ready in the next turn."""
        if self._turns_without_input:
            self._turns_without_input -= 1
            return
        super()._process_events(event_list)  # type: ignore[misc]
