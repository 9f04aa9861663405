"""Bounds the bytes per second of all moves of a node (`replica.alter.log.dirs.io.max.bytes.per.second`).

Smooth, not in bursts: a step pays for itself from when it begins, and the next step waits until that is paid off.
Of time that was not used no more is saved up than one step takes, so that waking up late costs nothing.
"""

from __future__ import annotations

import math
from typing import Final

# A step takes this long at the limit, so that the rate is kept over short times as well.
STEP_MS: Final = 200
MIN_STEP_BYTES: Final = 16 * 1024


class MoveThrottle:
    """One per node. Without a limit nothing waits."""

    __slots__ = ("_free_at_ms", "bytes_per_second")

    def __init__(self) -> None:
        self._free_at_ms = 0.0
        # None is no limit.
        self.bytes_per_second: int | None = None

    def step_bytes(self, most: int) -> int:
        """Return how much a step should copy at most."""
        if self.bytes_per_second is None:
            return most
        return max(min(most, self.bytes_per_second * STEP_MS // 1000), MIN_STEP_BYTES)

    def wait_ms(self, now_ms: float) -> int:
        """Return how long to wait before a step, in whole milliseconds, the unit of the clock."""
        return 0 if self.bytes_per_second is None else max(math.ceil(self._free_at_ms - now_ms), 0)

    def pay(self, size: int, begun_ms: float) -> None:
        """Count bytes of a step that began at that time."""
        if self.bytes_per_second is not None:
            earliest_ms = begun_ms - STEP_MS
            self._free_at_ms = max(self._free_at_ms, earliest_ms) + size * 1000 / max(self.bytes_per_second, 1)
