"""Bounds the bytes per second of the cleaner: each step returns how long to pause."""

from __future__ import annotations


class CleanerThrottle:
    """Spreads work evenly; time that was not used is not saved up."""

    __slots__ = ("_free_at_ms",)

    def __init__(self) -> None:
        self._free_at_ms = 0.0

    def rest_ms(self, size: int, bytes_per_second: float, now_ms: int) -> float:
        """Return how long to rest after a step of `size` bytes that has just ended."""
        self._free_at_ms = max(self._free_at_ms, now_ms) + size * 1000 / max(bytes_per_second, 1.0)
        return self._free_at_ms - now_ms
