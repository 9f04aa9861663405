"""How much the batches that are decompressed at the same time may hold, over all requests of a node.

Owns the two bounds against decompression bombs. One batch may hold `decompressed_limit`: a small multiple of the
`max.message.bytes` of its topic. Kafka streams and has no such bound; our codecs need the whole output in memory, and
twice as much while they work. All batches at a time may hold MAX_DECOMPRESSED_BYTES: jobs wait in order until there is
room, on the loop, so that they hold no thread of the pool. A job that alone may hold more runs by itself. Requests,
searches of the tier and the steps of the log cleaner come from the same budget.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.records.record import MIN_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.config.topic import TopicConfig
    from crabka.records.header import BatchHeader

P = ParamSpec("P")
T = TypeVar("T")

DECOMPRESSION_FACTOR: Final = 16
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
# A topic for tiny batches still gets room for what compresses well.
_LEAST_MESSAGE_BYTES: Final = 64 * 1024


def decompressed_limit(config: TopicConfig) -> int:
    """Return how many bytes the records of one batch for the topic may have."""
    return DECOMPRESSION_FACTOR * max(config.max_message_bytes, _LEAST_MESSAGE_BYTES)


def search_limit(config: TopicConfig) -> int:
    """Return how many bytes a stored batch may have that is searched for a record.

    Plain topics take batches unseen, so that one may hold more than `decompressed_limit`.
    """
    return max(MAX_DECOMPRESSED_BYTES, decompressed_limit(config))


def check_record_count(header: BatchHeader, config: TopicConfig) -> None:
    """Refuse more records than an uncompressed batch of the largest size could have: each costs time to look at.

    Raises OperationError (MESSAGE_TOO_LARGE), which lets a producer split the batch.
    """
    limit = max(config.max_message_bytes, _LEAST_MESSAGE_BYTES) // MIN_RECORD_BYTES
    if header.records_count > limit:
        raise OperationError(
            ErrorCode.message_too_large, f"A batch of {header.records_count} records exceeds the limit of {limit}"
        )


class JobThreads(Protocol):
    """Runs jobs: a pool, or a share of one."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` in a thread. Raises if it takes no more jobs."""
        ...


class DecompressionBudget:
    """Admits jobs in the order in which they come. All methods run on the loop."""

    def __init__(self, limit_bytes: int = MAX_DECOMPRESSED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._waiting: deque[tuple[int, asyncio.Future[Any], Callable[[], None]]] = deque()
        self.used_bytes = 0

    async def run(self, threads: JobThreads, size: int, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn`, which may hold `size` bytes, in a thread once there is room. Raises what it raises."""
        return await self.submit(threads, size, fn, *args, **kwargs)

    def submit(
        self, threads: JobThreads, size: int, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """As `run`, for callers that may stop waiting.

        Cancelling the future drops a job that has no room yet. One that runs keeps its memory until it has ended.
        """
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = partial(self._start, outcome, threads, size, partial(fn, *args, **kwargs))
        if not self._waiting and self._has_room(size):
            self.used_bytes += size
            job()
        else:
            self._waiting.append((size, outcome, job))
        return outcome

    def _start(self, outcome: asyncio.Future[T], threads: JobThreads, size: int, fn: Callable[[], T]) -> None:
        try:
            running = threads.submit(fn)
        except Exception as error:  # noqa: BLE001 - the pool is closed or full, which is the caller's matter
            _fail(outcome, error)
            self._give_back(size)
            return
        running.add_done_callback(partial(self._on_done, outcome, size))

    def _on_done(self, outcome: asyncio.Future[T], size: int, running: asyncio.Future[T]) -> None:
        self._give_back(size)
        if running.cancelled():
            outcome.cancel()
        elif (error := _failure_of(running)) is None:
            if not outcome.done():
                outcome.set_result(running.result())
        else:
            _fail(outcome, error)

    def _has_room(self, size: int) -> bool:
        return not self.used_bytes or self.used_bytes + size <= self._limit_bytes

    def _give_back(self, size: int) -> None:
        self.used_bytes -= size
        while self._waiting:
            wanted, outcome, job = self._waiting[0]
            if not outcome.done() and not self._has_room(wanted):
                return
            self._waiting.popleft()
            if not outcome.done():
                self.used_bytes += wanted
                job()


def _failure_of(job: asyncio.Future[Any]) -> BaseException | None:
    """Return why a job failed. A future lets go of the traceback, whose frames may hold a request, in `result` only."""
    try:
        job.result()
    except BaseException as error:  # noqa: BLE001 - it belongs to the caller that waits
        return error
    return None


def _fail(outcome: asyncio.Future[T], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error)
        outcome.exception()  # the caller may have stopped waiting
