"""Deadlines of a coordinator, kept by one task, so that no timer outlives the node.

A deadline that becomes later is not moved here: its action runs once too early, and sets the new one.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from typing import TYPE_CHECKING

from crabka.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

logger = logging.getLogger(__name__)


class DeadlineQueue:
    """At most one deadline per owner: its earliest one."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._heap: list[tuple[int, int, Hashable, Callable[[], None]]] = []
        self._armed: dict[Hashable, int] = {}
        self._order = itertools.count()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._armed)

    def arm(self, owner: Hashable, deadline_ms: int, action: Callable[[], None]) -> None:
        """Run an action at a time, unless one of the same owner comes before it."""
        armed = self._armed.get(owner)
        if armed is not None and armed <= deadline_ms:
            return
        self._armed[owner] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, next(self._order), owner, action))
        if self._heap[0][2] is owner:
            self._changed.set()

    def disarm(self, owner: Hashable) -> None:
        """Remove the deadline of an owner, if it has one."""
        self._armed.pop(owner, None)

    async def run(self) -> None:
        """Run actions when they are due, until cancelled."""
        while True:
            self._run_due()
            self._changed.clear()
            delay = max(self._heap[0][0] - self._now_ms(), 1) / 1000 if self._heap else None
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _run_due(self) -> None:
        now_ms = self._now_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, _, owner, action = heapq.heappop(self._heap)
            if self._armed.get(owner) != deadline_ms:
                continue
            del self._armed[owner]
            try:
                action()
            except InvariantError:
                raise
            except Exception:
                logger.exception("A timer of a coordinator failed")
