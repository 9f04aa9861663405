"""The threads that read from the tier, and the bound on what waits for them.

They are separate from the node's other threads: a store that hangs blocks only these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from crabka.remote.errors import RemoteStorageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from crabka.ports import Threads

P = ParamSpec("P")
T = TypeVar("T")


class ReaderBusyError(RemoteStorageError):
    """So many reads wait for the tier that another one is refused; to be tried again."""

    retriable = True


class ReaderPool:
    """Runs jobs in threads and counts them. Only for the loop."""

    def __init__(self, new_threads: Callable[[int], Threads], *, size: Callable[[], int], max_pending: int) -> None:
        """`size` is the number of threads, which may change at any time."""
        self._new_threads = new_threads
        self._size = size
        self._thread_count = size()
        self._threads = new_threads(self._thread_count)
        # What these threads have to do; others end what they were given before the size changed.
        self._jobs: set[asyncio.Future[Any]] = set()
        self._max_pending = max_pending
        self._unfinished = 0

    @property
    def queue_size(self) -> int:
        """Return how many jobs wait for a thread (RemoteLogReaderTaskQueueSize)."""
        return max(0, self._unfinished - self._thread_count)

    @property
    def idle_share(self) -> float:
        """Return the share of threads that have nothing to do (RemoteLogReaderAvgIdlePercent)."""
        return max(0.0, 1 - self._unfinished / self._thread_count)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` in a thread. The future is shared: a waiter must not cancel it.

        Raises ReaderBusyError when `max_pending` jobs wait already.
        """
        if self._unfinished >= self._thread_count + self._max_pending:
            raise ReaderBusyError(f"{self._max_pending} reads of the remote tier wait already")
        future = self._submit(fn, *args, **kwargs)
        self._unfinished += 1
        future.add_done_callback(self._on_done)
        return future

    def run_later(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Run a small job in the background, after all others. `fn` handles its own failures."""
        self._submit(fn, *args, **kwargs)

    def _submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        size = self._size()
        if size != self._thread_count:
            self._retire()
            self._threads, self._jobs, self._thread_count = self._new_threads(size), set(), size
        future = self._threads.submit(fn, *args, **kwargs)
        self._jobs.add(future)
        future.add_done_callback(self._jobs.discard)
        return future

    def _retire(self) -> None:
        """Let the present threads end as soon as they have nothing to do."""
        threads, jobs = self._threads, self._jobs

        def end_if_idle(_job: asyncio.Future[Any] | None = None) -> None:
            if not jobs:
                threads.close(wait=False)

        for job in jobs:
            job.add_done_callback(end_if_idle)
        end_if_idle()

    def close(self) -> None:
        """Refuse more work. What hangs in a store is not waited for."""
        self._threads.close(wait=not self._unfinished)

    def _on_done(self, future: asyncio.Future[Any]) -> None:
        self._unfinished -= 1
        if not future.cancelled():
            # All waiters may have gone; an unread failure is fine.
            future.exception()
