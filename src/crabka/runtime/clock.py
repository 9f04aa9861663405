"""The clocks of the machine."""

from __future__ import annotations

from time import monotonic_ns, thread_time_ns, time_ns


class SystemClock:
    """Wall clock and monotonic clock of the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back; only differences have a meaning."""
        return monotonic_ns() // 1_000_000

    def processor_ns(self) -> int:
        """Return how long the calling thread has used a processor; only differences have a meaning."""
        return thread_time_ns()
