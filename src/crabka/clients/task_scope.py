"""The background tasks of one client object: started in one place, all gone after `close`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class TaskScope:
    """Owns tasks. Their coroutines handle their own failures; one that does not is raised again by `close`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures: list[BaseException] = []

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine until it ends or the scope closes."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def close(self) -> None:
        """Cancel what still runs and wait for it. Raises the first failure that no coroutine handled."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            # Done callbacks run in the next turn of the loop.
            await asyncio.sleep(0)
        if self._failures:
            raise self._failures[0]

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failures.append(task.exception())  # type: ignore[arg-type] # not None here
