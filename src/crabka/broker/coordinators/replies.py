"""Answers of a coordinator that may come later."""

from __future__ import annotations

import asyncio
from typing import Any


class PendingReply:
    """An answer that is known now or later."""

    __slots__ = ("_future", "result")

    def __init__(self) -> None:
        self.result: Any = None
        self._future: asyncio.Future[Any] | None = None

    def resolve(self, result: Any) -> None:
        """Set the answer."""
        self.result = result
        if self._future is not None and not self._future.done():
            self._future.set_result(result)

    async def wait(self) -> Any:
        """Wait for the answer."""
        if self.result is None:
            self._future = asyncio.get_running_loop().create_future()
            return await self._future
        return self.result

    async def wait_in_time(self, timeout_ms: int, late: Any) -> Any:
        """Wait for the answer; return `late` if it does not come in time."""
        if self.result is None:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    return await self.wait()
            except TimeoutError:
                return late
        return self.result
