"""How many bytes per second go to the tier or come from it (KIP-956, RLMQuotaManager). PURE.

Bytes are counted in a sliding window. Whoever wants to move some asks how long to wait first, and counts what it moves:
a segment goes as a whole, so the rate may be exceeded by one, and the next waits until the window allows for it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ByteRateQuota:
    """Measures a rate over `sample_count` samples and says how long to wait for it to fall."""

    def __init__(self, bytes_per_second: Callable[[], int], *, sample_count: int, sample_ms: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._window_ms = sample_count * sample_ms
        self._sample_ms = sample_ms
        # Start time and bytes of each sample, oldest first.
        self._samples: deque[list[int]] = deque()
        self._total_bytes = 0

    def record(self, byte_count: int, now_ms: int) -> None:
        """Count bytes that move now."""
        self._forget(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < self._sample_ms:
            self._samples[-1][1] += byte_count
        else:
            self._samples.append([now_ms, byte_count])
        self._total_bytes += byte_count

    def rate(self, now_ms: int) -> float:
        """Return the bytes per second, spread over the whole window however short the time since the first ones."""
        self._forget(now_ms)
        return self._total_bytes * 1000 / self._window_ms

    def wait_ms(self, now_ms: int) -> int:
        """Return how long to wait before more may move, 0 if it may now; ask again then."""
        limit = self._bytes_per_second()
        if self.rate(now_ms) <= limit:
            return 0
        # The oldest sample leaves the window first.
        return max(1, self._samples[0][0] + self._window_ms - now_ms)

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._window_ms:
            self._total_bytes -= self._samples.popleft()[1]
