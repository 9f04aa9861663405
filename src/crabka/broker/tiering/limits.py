"""How much work on the tier runs at a time: threads and turns by a setting, and bytes per second (KIP-956).

Settings may change at any time. Bytes are counted in a sliding window (RLMQuotaManager): the caller first waits as long
as `wait_ms` says, then records what it moves. A segment moves as a whole, so one segment may exceed the rate, and the
next waits until the window allows for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from crabka.ports import Runtime, Threads

P = ParamSpec("P")
T = TypeVar("T")


class TierPool:
    """A pool of `size()` threads. The owner of a turn runs one job at a time."""

    def __init__(self, runtime: Runtime, name: str, size: Callable[[], int]) -> None:
        self._runtime = runtime
        self._name = name
        self._size = size
        self._active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._threads: Threads | None = None
        self._thread_count = 0

    @property
    def active_count(self) -> int:
        """Return how many turns are held."""
        return self._active

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, in the order of requests, and hold it for the block."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._hand_on()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # The turn came at the same moment: pass it on.
                self._active -= 1
                self._hand_on()
            raise
        try:
            yield
        finally:
            self._active -= 1
            self._hand_on()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` in a thread; the caller holds a turn."""
        size = self._size()
        if self._threads is None or size > self._thread_count:
            if self._threads is not None:
                # Running jobs end there; none are queued, because there are no more turns than threads.
                self._threads.close(wait=False)
            self._threads = self._runtime.new_pool(size, self._name)
            self._thread_count = size
        return self._threads.submit(fn, *args, **kwargs)

    def close(self, *, wait: bool = True) -> None:
        """End the threads; without `wait`, busy ones end after their job and are not waited for."""
        if self._threads is not None:
            self._threads.close(wait=wait)

    def _hand_on(self) -> None:
        while self._waiting and self._active < self._size():
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._active += 1
                waiter.set_result(None)


class ByteRateQuota:
    """Measures a rate over `sample_count` samples, and how long to wait for it to fall."""

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
        """Return how long to wait before more may move, 0 for now; call it again after the wait."""
        limit = self._bytes_per_second()
        if self.rate(now_ms) <= limit:
            return 0
        # The oldest sample leaves the window first.
        return max(1, self._samples[0][0] + self._window_ms - now_ms)

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._window_ms:
            self._total_bytes -= self._samples.popleft()[1]
