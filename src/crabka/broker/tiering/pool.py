"""Threads for slow work on the tier, and turns: as many at once as a setting allows, which may change at any time."""

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
    """A pool of `size()` threads. Whoever has a turn runs one job at a time."""

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
        """Return how many have a turn."""
        return self._active

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, in the order of asking, and have it for the block."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._hand_on()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # The turn came at the same moment: somebody else may have it.
                self._active -= 1
                self._hand_on()
            raise
        try:
            yield
        finally:
            self._active -= 1
            self._hand_on()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` in a thread; the caller has a turn."""
        size = self._size()
        if self._threads is None or size > self._thread_count:
            if self._threads is not None:
                # What runs there ends there; nothing waits, because there are no more turns than threads.
                self._threads.close(wait=False)
            self._threads = self._runtime.new_pool(size, self._name)
            self._thread_count = size
        return self._threads.submit(fn, *args, **kwargs)

    def close(self, *, wait: bool = True) -> None:
        """End the threads; without `wait`, those that have a job end with it, and nobody waits for them."""
        if self._threads is not None:
            self._threads.close(wait=wait)

    def _hand_on(self) -> None:
        while self._waiting and self._active < self._size():
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._active += 1
                waiter.set_result(None)
