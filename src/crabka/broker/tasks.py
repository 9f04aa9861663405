"""The tasks of a node: all of them end with it.

`asyncio.TaskGroup` cancels everything when one task fails. A node must not: a handler that fails costs its
connection, a periodic duty that fails is logged and tried again. So this scope keeps the other half of the
promise, that no task outlives its owner, and leaves failures to whoever awaits the task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class TaskScope:
    """Owns tasks until they are done or the scope is closed."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task; after the scope was closed it is cancelled at once."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._closed:
            task.cancel()
        return task

    async def close(self) -> None:
        """Cancel what runs and wait until it is gone."""
        self._closed = True
        while self._tasks:
            pending = list(self._tasks)
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)
