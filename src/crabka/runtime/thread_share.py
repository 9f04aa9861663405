"""A bounded share of a pool: back-pressure for those who have more work than the pool should be given at once.

The pool itself refuses work above its limit, which is a last resort. Who has one job per log, per request or per
partition goes through a share: so many jobs are with the pool, the others wait here in order, and the caller waits for
its own. So a node with very many logs, or a burst of cold reads, neither fails nor keeps the sync of the metadata
waiting for a long queue.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from crabka.ports import Threads

P = ParamSpec("P")
T = TypeVar("T")

# Of jobs that are as many as there are logs: how many a thread gets at a time, and how many times that the pool has.
GROUP_SIZE: Final = 16
GROUPS_AT_ONCE: Final = 8


class ThreadShare:
    """A port of threads that has at most `at_once` jobs in another one. Only for the loop.

    What waits is bounded by the callers: a connection has a bounded number of requests in flight, a duty flushes each
    log once.
    """

    def __init__(self, threads: Threads, at_once: int) -> None:
        self._threads = threads
        self._at_once = at_once
        self._running = 0
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._closed = False

    @property
    def waiting_count(self) -> int:
        """Return how many jobs are not with the threads yet."""
        return len(self._waiting)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` in a thread when it is its turn. Cancelling the future drops a job that has not started.

        Raises RuntimeError after close.
        """
        if self._closed:
            raise RuntimeError("the share of the thread pool is closed")
        if self._running < self._at_once:
            self._running += 1
            future = self._threads.submit(fn, *args, **kwargs)
            future.add_done_callback(self._on_done)
            return future
        waiting: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((waiting, partial(fn, *args, **kwargs)))
        return waiting

    async def wait_submitted(self) -> None:
        """Wait until all jobs that were submitted before have ended."""
        waiting = [future for future, _ in self._waiting]
        if waiting:
            await asyncio.wait(waiting)
        await self._threads.wait_submitted()

    def close(self, *, wait: bool = True) -> None:  # noqa: ARG002 - what runs belongs to the other pool
        """Refuse more work and drop what has not begun; the threads belong to the other pool."""
        self._closed = True
        while self._waiting:
            self._waiting.popleft()[0].cancel()

    def _on_done(self, _future: asyncio.Future[Any]) -> None:
        self._running -= 1
        while self._waiting and self._running < self._at_once:
            waiting, job = self._waiting.popleft()
            if not waiting.done():
                self._start(waiting, job)

    def _start(self, waiting: asyncio.Future[Any], job: Callable[[], Any]) -> None:
        try:
            future = self._threads.submit(job)
        except RuntimeError as error:  # the pool was closed meanwhile
            waiting.set_exception(error)
            return
        self._running += 1
        future.add_done_callback(self._on_done)
        future.add_done_callback(partial(_hand_over, waiting))
        waiting.add_done_callback(lambda done: future.cancel() if done.cancelled() else None)


async def run_all(
    threads: Threads,
    jobs: Iterable[Callable[[], T]],
    *,
    on_result: Callable[[T], None] | None = None,
    at_once: int = GROUPS_AT_ONCE,
    group_size: int = GROUP_SIZE,
) -> None:
    """Run any number of small jobs; they are drawn from the iterable as threads take them.

    A thread gets `group_size` of them at a time, and `at_once` such groups are with the pool. `on_result` gets each
    result on the loop. The failure of a job does not keep the others from running; the first one is raised when all are
    done. If the caller is cancelled, or the iterable fails, no thread begins another job.
    """
    source = iter(jobs)
    is_over = threading.Event()
    failures: list[BaseException] = []

    async def work() -> None:
        while group := list(islice(source, group_size)):
            results, failed = await threads.submit(_call_all, group, is_over)
            failures.extend(failed)
            if on_result is not None:
                for result in results:
                    on_result(result)

    workers = [asyncio.ensure_future(work()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    except BaseException:
        is_over.set()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        raise
    if failures:
        raise failures[0]


def _call_all(jobs: Sequence[Callable[[], T]], is_over: threading.Event) -> tuple[list[T], list[Exception]]:
    results: list[T] = []
    failures: list[Exception] = []
    for job in jobs:
        if is_over.is_set():
            break
        try:
            results.append(job())
        except Exception as error:  # noqa: BLE001 - raised when all are done
            failures.append(error)
    return results, failures


def _hand_over(waiting: asyncio.Future[Any], future: asyncio.Future[Any]) -> None:
    if waiting.done():
        if not future.cancelled():
            future.exception()  # the waiter is gone
    elif future.cancelled():
        waiting.cancel()
    elif (error := future.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(future.result())
