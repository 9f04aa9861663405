"""How long a read of the tier may take. Shared work is waited for, never cancelled."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from crabka.errors import CrabkaError

T = TypeVar("T")


class RemoteWaitOverError(CrabkaError):
    """The tier has not responded in time. The request continues and serves the next attempt."""


class Deadline:
    """A moment on the clock of the running loop."""

    __slots__ = ("_at", "_loop")

    def __init__(self, wait_ms: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + wait_ms / 1000

    async def reach(self, *futures: asyncio.Future[T]) -> None:
        """Return when all futures are done or the time is over."""
        pending = [future for future in futures if not future.done()]
        remaining_s = self._at - self._loop.time()
        if pending and remaining_s > 0:
            await asyncio.wait(pending, timeout=remaining_s)

    async def wait(self, future: asyncio.Future[T]) -> T:
        """Return the result of a future that others may wait for too. Raises RemoteWaitOverError if it is late."""
        if not future.done():
            await self.reach(future)
            if not future.done():
                raise RemoteWaitOverError
        return future.result()
