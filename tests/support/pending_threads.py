"""Threads whose jobs end when the test lets them."""

from __future__ import annotations

import asyncio
from typing import Any


class PendingThreads:
    """Runs nothing; `running` has a future for each job."""

    def __init__(self) -> None:
        self.running: list[asyncio.Future[Any]] = []

    def submit(self, _fn: Any, /, *_args: Any, **_kwargs: Any) -> asyncio.Future[Any]:
        """Note a job."""
        self.running.append(asyncio.get_running_loop().create_future())
        return self.running[-1]

    async def wait_submitted(self) -> None:
        """Wait for all jobs that were noted."""
        if self.running:
            await asyncio.wait(self.running)

    def close(self, *, wait: bool = True) -> None:
        """Do nothing: there are no threads."""
