"""How often Python looks for objects that only refer to each other."""

from __future__ import annotations

import asyncio
import gc
from typing import Final

# A node makes few cycles and keeps much: looking at every 700th new object, as Python does by itself, takes a tenth of
# the time in which it learns a hundred thousand remote segments.
NEW_OBJECTS: Final = 10_000

# A cycle may hold a large buffer, of which the count of objects says nothing. Looking at what is new this often bounds
# how long that lives, and takes about a millisecond.
PERIOD_S: Final = 2.0
_YOUNG_GENERATIONS: Final = 1


def collect_less_often() -> None:
    """Let the collector of this process run once there are NEW_OBJECTS more than before."""
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


class PeriodicCollector:
    """Collects what is new from time to time, while it is in use."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        """Begin, on the running loop."""
        self._schedule(asyncio.get_running_loop())

    def __exit__(self, *_: object) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._period_s, self._collect, loop)

    def _collect(self, loop: asyncio.AbstractEventLoop) -> None:
        gc.collect(_YOUNG_GENERATIONS)
        self._schedule(loop)
