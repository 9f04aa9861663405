"""The bounded pool for work that would stall the loop.

Owns the threads and the queue. Leaner than run_in_executor: one future per job instead of two. Those who may have many
jobs at once, one per log or per request, go through `thread_share`, which makes them wait; the limit here only protects
the memory from what was overlooked.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from crabka._kio import ErrorCode
from crabka.errors import OperationError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_WORKER_COUNT = 8
DEFAULT_QUEUE_LIMIT = 10_000


class PoolSaturatedError(OperationError):
    """More jobs wait for a thread than the pool admits: a last resort, after the shares of all who have many jobs.

    Clients repeat a request that fails so, whichever it is.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(ErrorCode.kafka_storage_error, f"{limit} jobs wait for a thread already")


class _Waiting(NamedTuple):
    """A caller that waits for the end of jobs."""

    numbers: set[int]
    loop: asyncio.AbstractEventLoop
    ended: asyncio.Future[None]


class _Job(NamedTuple):
    number: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class ThreadPool:
    """Named daemon threads that take jobs from a bounded queue. The threads start with the first job."""

    def __init__(
        self, max_workers: int = DEFAULT_WORKER_COUNT, *, queue_limit: int = DEFAULT_QUEUE_LIMIT, name: str = "crabka"
    ) -> None:
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._queue_limit = queue_limit
        self._closed = False
        # Daemons, so that a node that was never closed cannot keep the interpreter from exiting.
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True) for index in range(max_workers)
        ]
        self._started = False
        # The numbers of the jobs that have not ended, and those who wait for them: used by the loop and by the threads.
        self._counting = threading.Lock()
        self._job_count = 0
        self._unfinished: set[int] = set()
        self._waiting: list[_Waiting] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` in a thread; the future is resolved on the running loop, where this must be called.

        The future fails with PoolSaturatedError when the queue is full. Cancelling it drops a job that has not
        started. Raises RuntimeError after close.
        """
        if self._closed:
            raise RuntimeError("the thread pool is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._queue.qsize() >= self._queue_limit:
            future.set_exception(PoolSaturatedError(self._queue_limit))
            return future
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        with self._counting:
            self._job_count += 1
            number = self._job_count
            self._unfinished.add(number)
        self._queue.put(_Job(number, loop, future, fn, args, kwargs))
        return future

    async def wait_submitted(self) -> None:
        """Wait until all jobs that were submitted before have ended, also those that were cancelled while they ran.

        What the loop does at the end of their futures is done before this returns.
        """
        loop = asyncio.get_running_loop()
        with self._counting:
            if not self._unfinished:
                return
            ended: asyncio.Future[None] = loop.create_future()
            self._waiting.append(_Waiting(set(self._unfinished), loop, ended))
        await ended

    def close(self, *, wait: bool = True) -> None:
        """Finish everything submitted, end the threads and refuse more. Idempotent; blocks the caller.

        Without `wait` it returns at once: jobs that have not started are dropped, the others end with their threads.
        """
        if not self._closed and self._started:
            if not wait:
                self._drop_waiting()
            for _ in self._threads:
                self._queue.put(None)
        self._closed = True
        if self._started and wait:
            for thread in self._threads:
                thread.join()

    def _drop_waiting(self) -> None:
        with contextlib.suppress(Empty):
            while (job := self._queue.get_nowait()) is not None:
                job.future.cancel()
                self._note_end(job.number)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            _execute(job)
            number = job.number
            # A local would keep the arguments and the result alive until the next job.
            del job
            self._note_end(number)

    def _note_end(self, number: int) -> None:
        with self._counting:
            self._unfinished.discard(number)
            if not self._waiting:
                return
            for each in self._waiting:
                each.numbers.discard(number)
            done = [each for each in self._waiting if not each.numbers]
            self._waiting = [each for each in self._waiting if each.numbers]
        for each in done:
            _resolve_on(each.loop, each.ended, None, None)


def _execute(job: _Job) -> None:
    if job.future.cancelled():
        return
    result: Any = None
    failure: BaseException | None = None
    try:
        result = job.fn(*job.args, **job.kwargs)
    except StopIteration as error:
        failure = RuntimeError("the job raised StopIteration, which a future cannot carry")
        failure.__cause__ = error
    except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the one who waits
        failure = error
    try:
        _resolve_on(job.loop, job.future, result, failure)
    finally:
        # The failure refers to this frame: without this line all that the job had would live until the next collection.
        del failure, job


def _resolve_on(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: object, failure: BaseException | None
) -> None:
    try:
        loop.call_soon_threadsafe(_resolve, future, result, failure)
    except RuntimeError:
        # The loop was closed in the meantime: there are no waiters.
        if not loop.is_closed():
            raise
    finally:
        del failure


def _resolve(future: asyncio.Future[Any], result: object, failure: BaseException | None) -> None:
    if future.done():  # cancelled while the job ran
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
