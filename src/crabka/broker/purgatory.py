"""Requests that wait: fetches for bytes, produces for replication.

A waiting request is an object that partitions know and poke; it completes exactly once, by progress or by its
timer. Completion never runs inside the poke: it is scheduled on the loop, so that the produce that made the
progress is answered before the fetch that it woke is read from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.partition import Partition

T = TypeVar("T")

Completion = Callable[[], "T | asyncio.Future[T]"]


class Delayed(Generic[T]):
    """A request that is answered when `complete` runs: on progress or when its time is up.

    `complete` may give the answer itself or a future of it. Cancelling `future`, as a lost connection does, ends
    the wait.
    """

    __slots__ = ("_complete", "_done", "_partitions", "_timer", "future")

    def __init__(self, complete: Completion[T], partitions: Iterable[Partition]) -> None:
        self._complete = complete
        self._partitions = tuple(partitions)
        self._done = False
        self._timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(self._release)

    def start(self, timeout_ms: int) -> asyncio.Future[T]:
        """Register with the partitions, arm the timer and return the future of the answer."""
        loop = self.future.get_loop()
        self._timer = loop.call_later(timeout_ms / 1000, self._finish)
        for partition in self._partitions:
            partition.add_waiter(self)
        return self.future

    def progressed(self, partition: Partition, appended_bytes: int) -> None:
        """Called by a partition when its log or its high watermark moved; subclasses decide what that means."""
        raise NotImplementedError

    def trigger(self) -> None:
        """Schedule the completion; a second trigger does nothing."""
        if not self._done:
            self._done = True
            self._release()
            self.future.get_loop().call_soon(self._finish)

    def _release(self, _future: asyncio.Future[T] | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in self._partitions:
            partition.remove_waiter(self)

    def _finish(self) -> None:
        self._done = True
        self._release()
        if self.future.done():
            return
        try:
            answer = self._complete()
        except Exception as error:  # noqa: BLE001 - whatever went wrong belongs to the one who waits
            self.future.set_exception(error)
            return
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(self._hand_over)
        else:
            self.future.set_result(answer)

    def _hand_over(self, answer: asyncio.Future[T]) -> None:
        if answer.cancelled():
            self.future.cancel()
        elif not self.future.done():
            failure = answer.exception()
            if failure is None:
                self.future.set_result(answer.result())
            else:
                self.future.set_exception(failure)


class DelayedFetch(Delayed[T]):
    """A fetch that found fewer than `min_bytes`: it completes once that many bytes became readable."""

    __slots__ = ("_missing_bytes",)

    def __init__(self, complete: Completion[T], partitions: Iterable[Partition], missing_bytes: int) -> None:
        super().__init__(complete, partitions)
        self._missing_bytes = missing_bytes

    def progressed(self, partition: Partition, appended_bytes: int) -> None:  # noqa: ARG002 - any partition counts
        """Count readable bytes; a partition that stopped being led here (negative count) ends the wait."""
        self._missing_bytes -= appended_bytes
        if appended_bytes < 0 or self._missing_bytes <= 0:
            self.trigger()


class DelayedCommittedFetch(DelayedFetch[T]):
    """A fetch under read_committed: bytes are readable once the last stable offset passed them.

    What was appended to a partition since its last stable offset moved counts as soon as it moves again. How much was
    undecided before the wait is not known: it is taken for enough.
    """

    __slots__ = ("_appended", "_stable")

    def __init__(self, complete: Completion[T], partitions: Iterable[Partition], missing_bytes: int) -> None:
        partitions = tuple(partitions)
        super().__init__(complete, partitions, missing_bytes)
        self._stable = {partition: partition.log.last_stable_offset for partition in partitions}
        self._appended = {
            partition: 0 if stable == partition.log.high_watermark else missing_bytes
            for partition, stable in self._stable.items()
        }

    def progressed(self, partition: Partition, appended_bytes: int) -> None:
        """Count bytes once they are stable."""
        if appended_bytes < 0:
            self.trigger()
            return
        self._appended[partition] += appended_bytes
        stable = partition.log.last_stable_offset
        if stable > self._stable[partition]:
            self._stable[partition] = stable
            readable, self._appended[partition] = self._appended[partition], 0
            super().progressed(partition, readable)


class DelayedProduce(Delayed[T]):
    """A produce with acks=all: it completes once every partition's high watermark passed its records.

    After completion `failures` tells of the partitions where that did not happen, and why.
    """

    __slots__ = ("_abandoned", "_required")

    def __init__(self, complete: Completion[T], required: dict[Partition, int]) -> None:
        super().__init__(complete, required)
        self._required = required
        self._abandoned: set[Partition] = set()

    @property
    def failures(self) -> dict[Partition, ErrorCode]:
        """Return the partitions whose records are not known to be replicated."""
        return {
            **dict.fromkeys(self._required, ErrorCode.request_timed_out),
            **dict.fromkeys(self._abandoned, ErrorCode.not_leader_or_follower),
        }

    def progressed(self, partition: Partition, appended_bytes: int) -> None:
        """Forget the partition once its records are replicated, or at once if it is no longer led here."""
        required = self._required.get(partition)
        if required is not None and (appended_bytes < 0 or partition.log.high_watermark >= required):
            del self._required[partition]
            if appended_bytes < 0:
                self._abandoned.add(partition)
        if not self._required:
            self.trigger()
