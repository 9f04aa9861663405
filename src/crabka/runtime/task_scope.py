"""Tasks with an owner: none of them outlives it.

`asyncio.TaskGroup` cancels everything when one task fails. A client or a node must not: a request that fails costs
its connection, a periodic duty that fails is logged and tried again. So this scope keeps the other half of the
promise and leaves it to its owner what a failure means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class TaskScope:
    """Owns tasks until they are done or the scope is closed.

    Coroutines handle their own failures. What one does not handle goes to `on_failure`; without that it is raised
    again by `close`.
    """

    def __init__(self, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures: list[BaseException] = []
        self._on_failure = on_failure or self._failures.append
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine until it ends or the scope closes; in a closed scope it is cancelled at once."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        if self._closed:
            task.cancel()
        return task

    async def close(self) -> None:
        """Cancel what still runs and wait for it. Raises the first failure that was not handled."""
        self._closed = True
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
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._on_failure(failure)
