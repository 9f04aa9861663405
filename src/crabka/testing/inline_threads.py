"""The thread pool of one simulated node: jobs run on the loop, at random moments.

A job takes effect at one moment and its result arrives at a later one, so that a crash in between loses the answer
of work that was done, such as an fsync.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class InlineThreads:
    """Runs jobs on the loop. Without `rng` they run in order, in the next turn of the loop and without delay."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rng: random.Random | None = None, *, max_delay_ms: float = 0.0
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._max_delay_s = max_delay_ms / 1000
        # What waits for its moment, by its timer, in the order of submission.
        self._pending: dict[int, tuple[asyncio.Handle, Callable[[], None]]] = {}
        self._count = 0
        self._closed = False
        self._killed = False
        # Done when a job has delivered its result, or was dropped because it was cancelled.
        self._ends: set[asyncio.Future[None]] = set()

    @property
    def pending_count(self) -> int:
        """Return how many jobs have not delivered their result yet."""
        return len(self._pending)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` at a later moment. Raises RuntimeError after close; after kill nothing ever runs."""
        if self._closed:
            raise RuntimeError("the thread pool is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        end: asyncio.Future[None] = self._loop.create_future()
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)

        def deliver(result: T | None, failure: BaseException | None) -> None:
            _settle(future, result, failure)
            _settle(end, None, None)

        def work() -> None:
            if future.cancelled():
                _settle(end, None, None)
                return
            result: T | None = None
            failure: BaseException | None = None
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - the error is the result of the job
                failure = error
            self._schedule(partial(deliver, result, failure))

        self._schedule(work)
        return future

    async def wait_submitted(self) -> None:
        """Wait until all jobs that were submitted before have delivered their results."""
        if self._ends:
            await asyncio.wait(set(self._ends))

    def close(self, *, wait: bool = True) -> None:
        """Do all pending work now, or drop it, and refuse new work. Idempotent."""
        self._closed = True
        if not wait:
            self.kill()
        while self._pending:
            key = next(iter(self._pending))
            handle, step = self._pending.pop(key)
            handle.cancel()
            step()

    def kill(self) -> None:
        """Drop all pending work and all to come, as the end of the process does; their futures never resolve."""
        self._killed = True
        for handle, _ in self._pending.values():
            handle.cancel()
        self._pending.clear()

    def _schedule(self, step: Callable[[], None]) -> None:
        if self._killed:
            return
        self._count += 1
        key = self._count

        def fire() -> None:
            del self._pending[key]
            step()

        delay = self._rng.uniform(0, self._max_delay_s) if self._rng is not None else 0.0
        # call_later(0) would not keep the order of equal times.
        handle = self._loop.call_later(delay, fire) if delay else self._loop.call_soon(fire)
        self._pending[key] = (handle, step)


def _settle(future: asyncio.Future[Any], result: object, failure: BaseException | None) -> None:
    if future.done():  # cancelled in the meantime
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
