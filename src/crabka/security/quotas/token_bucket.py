"""A budget that refills steadily (KIP-599): a large request waits for its excess, not until a window ends."""

from __future__ import annotations

from crabka.security.quotas.windows import MAX_THROTTLE_MS, MS_PER_SECOND, WindowSettings


class TokenBucket:
    """The changes that a client may still make. Below zero it has to wait."""

    __slots__ = ("_settings", "_tokens", "_updated_ms")

    def __init__(self, settings: WindowSettings, rate: float, now_ms: int) -> None:
        """Start full."""
        self._settings = settings
        self._tokens = rate * settings.span_ms / MS_PER_SECOND
        self._updated_ms = now_ms

    def take(self, amount: float, rate: float, now_ms: int) -> None:
        """Take tokens, also those that are not there yet."""
        self._refill(rate, now_ms)
        self._tokens -= amount

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """Return how long it takes until nothing is owed any more."""
        self._refill(rate, now_ms)
        if self._tokens >= 0:
            return 0
        return min(round(-self._tokens / rate * MS_PER_SECOND), MAX_THROTTLE_MS)

    def _refill(self, rate: float, now_ms: int) -> None:
        most = rate * self._settings.span_ms / MS_PER_SECOND
        self._tokens = min(most, self._tokens + rate * (now_ms - self._updated_ms) / MS_PER_SECOND)
        self._updated_ms = now_ms
