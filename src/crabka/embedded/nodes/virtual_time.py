"""Time of a node that a test moves forward: all that is due by then happens at once, as after a machine has slept.

Node code reads the time from its clock port and waits on its loop, so both must move together. Clients do not: to them
nothing has passed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from crabka.runtime import SystemClock

# A broker on its own need not watch itself: to lose its session while it sleeps would only unsettle clients.
NO_SESSION_END: Final = {"broker.session.timeout.ms": str(2**31 - 1)}


class VirtualTime:
    """How far a broker is ahead of the machine, in all of its lives; a clock port."""

    def __init__(self) -> None:
        self._machine = SystemClock()
        self._ahead_ms = 0

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

    def advance(self, seconds: float) -> None:
        """Move forward; on the thread of a loop that runs with this time."""
        self._ahead_ms += round(seconds * 1000)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Return a loop whose timers follow this time."""
        return _Loop(self)


class _Loop(asyncio.SelectorEventLoop):
    """Python's own loop: uvloop's timers cannot be moved."""

    def __init__(self, time: VirtualTime) -> None:
        self._virtual = time
        super().__init__()

    def time(self) -> float:
        """Return the time that timers are compared with."""
        return super().time() + self._virtual.ahead_s
