"""Runs the steps of checks in threads, with the pauses that the settings of checks demand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from crabka.log.cleaner.throttle import CleanerThrottle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabka.log.healing.scrub_settings import ScrubSettings
    from crabka.ports import Runtime


class CheckedBytes(Protocol):
    """The counter of a check."""

    bytes_checked: int


class PacedSteps:
    """The pace of all checks of one scrubber. Urgent steps have no limit in bytes, and a CPU share of their own."""

    def __init__(
        self, runtime: Runtime, settings: Callable[[], ScrubSettings], stats: CheckedBytes, *, urgent_cpu_percent: int
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._stats = stats
        self._urgent_cpu_percent = urgent_cpu_percent
        self._throttle = CleanerThrottle()

    async def run(self, steps: Iterator[int], *, is_urgent: bool) -> None:
        """Run all steps, each of which returns the bytes that it has read."""
        clock = self._runtime.clock
        while True:
            started_ms = clock.monotonic_ms()
            size = await self._step(steps)
            if size is None:
                return
            self._stats.bytes_checked += size
            now_ms, settings = clock.monotonic_ms(), self._settings()
            percent = self._urgent_cpu_percent if is_urgent else settings.max_cpu_percent
            rest_ms = (now_ms - started_ms) * (100 / percent - 1)
            if not is_urgent:
                rest_ms = max(rest_ms, self._throttle.rest_ms(size, settings.max_bytes_per_second, now_ms))
            if rest_ms >= 1:
                await asyncio.sleep(rest_ms / 1000)

    async def _step(self, steps: Iterator[int]) -> int | None:
        step = self._runtime.threads.submit(next, steps, None)
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            # Nothing may be read once the log is closed.
            await asyncio.wait([step])
            raise
