"""The clock of one simulated node: virtual time, seen through a wall clock that may be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.testing.virtual_time_loop import TIMER_RESOLUTION_S

if TYPE_CHECKING:
    import asyncio

# The wall-clock time at which every simulation starts: 2026-01-01T00:00:00Z.
EPOCH_MS = 1_767_225_600_000

# A timer may fire ahead of its time by the resolution of the loop, and sums of floats fall short by a rounding error:
# what is so near to the next millisecond has reached it.
_ROUNDING_MS = 2 * TIMER_RESOLUTION_S * 1000


class SimulatedClock:
    """Reads the time of a loop. Setting `skew_ms` while it runs makes the wall clock jump, as ntpd may."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_ms: int = 0) -> None:
        self.skew_ms = skew_ms
        self._loop = loop

    def now_ms(self) -> int:
        """Return milliseconds since the epoch as this node believes."""
        return EPOCH_MS + self.monotonic_ms() + self.skew_ms

    def monotonic_ms(self) -> int:
        """Return virtual milliseconds since the start of the loop; skew does not touch it."""
        return int(self._loop.time() * 1000 + _ROUNDING_MS)

    def processor_ns(self) -> int:
        """Return virtual time: what does not wait takes none."""
        return int(self._loop.time() * 1e9)
