"""A rate over sliding windows, sampled as Kafka samples it: the same requests give the same throttle times."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

MS_PER_SECOND: Final = 1000
# What a 32-bit throttle time can say.
MAX_THROTTLE_MS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """`count` windows of `length_ms` each: all but one of them are full at any time."""

    count: int = 11
    length_ms: int = 1000

    @property
    def span_ms(self) -> int:
        """Return the time after which a sample no longer counts."""
        return self.count * self.length_ms


@dataclass(slots=True)
class _Sample:
    start_ms: int
    last_ms: int
    amount: float


class RateWindows:
    """What one client used in the last windows."""

    __slots__ = ("_samples", "_settings")

    def __init__(self, settings: WindowSettings) -> None:
        self._settings = settings
        # Oldest first; one more than the windows, because the oldest usually overlaps the span only in part.
        self._samples: deque[_Sample] = deque(maxlen=settings.count + 1)

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount; a negative one takes back what was counted."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._settings.length_ms:
            samples.append(_Sample(now_ms, now_ms, amount))
            return
        sample = samples[-1]
        sample.amount += amount
        sample.last_ms = now_ms

    def rate(self, now_ms: int) -> float:
        """Return the amount per second. A client that has just begun is measured over full windows all the same."""
        self._forget(now_ms)
        return sum(sample.amount for sample in self._samples) * MS_PER_SECOND / self.window_ms(now_ms)

    def window_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is measured."""
        settings = self._settings
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing_windows = settings.count - 1 - elapsed_ms // settings.length_ms
        if missing_windows > 0:
            elapsed_ms += missing_windows * settings.length_ms
        return elapsed_ms or settings.length_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long the client has to pause until its rate is at the bound again: 0 if it is not above it."""
        rate = self.rate(now_ms)
        if rate <= bound:
            return 0
        return min(int((rate - bound) / bound * self.window_ms(now_ms)), MAX_THROTTLE_MS)

    def _forget(self, now_ms: int) -> None:
        span_ms = self._settings.span_ms
        while self._samples and now_ms - self._samples[0].last_ms >= span_ms:
            self._samples.popleft()
