"""A limit on how many records leave per second, without bursts that make up for pauses."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Makes its caller wait so that records leave at most at a rate; None is no limit."""

    def __init__(
        self,
        records_per_second: float | None,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = records_per_second
        self._now = now
        self._sleep = sleep
        self._free_at = now()

    def wait(self, count: int) -> None:
        """Wait until so many records may leave."""
        if self._rate is None:
            return
        now = self._now()
        start = max(self._free_at, now)
        self._free_at = start + count / self._rate
        if start > now:
            self._sleep(start - now)
