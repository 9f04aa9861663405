"""Requests that wait: fetches for bytes, produces for replication, deletions of records for all replicas.

A waiting request is an object that partitions know and poke; it completes exactly once, by progress or by its
timer. What happened before it was registered pokes nobody: a request that waits for offsets looks at each partition
once after that. Completion never runs inside the poke: it is scheduled on the loop, so that the produce that made the
progress is answered before the fetch that it woke is read from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.partition.followers import PartitionFollowers
    from crabka.broker.partition.replicas import PartitionReplicas, RequiredOffset

T = TypeVar("T")

Completion = Callable[[], "T | asyncio.Future[T]"]


class Delayed(Generic[T]):
    """A request that is answered when `complete` runs: on progress or when its time is up.

    `complete` may give the answer itself or a future of it. Cancelling `future`, as a lost connection does, ends
    the wait.
    """

    __slots__ = ("_complete", "_done", "_partitions", "_timer", "future")

    # Whether a partition pokes it on appends, instead of when they are below the high watermark.
    waits_for_appends: ClassVar[bool] = False

    def __init__(self, complete: Completion[T], partitions: Iterable[PartitionReplicas]) -> None:
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

    def progressed(self, partition: PartitionReplicas, readable_bytes: int) -> None:
        """Called by a partition when bytes became readable; subclasses decide what that means.

        A partition whose leader epoch ended gives a negative count.
        """
        raise NotImplementedError

    def low_watermark_rose(self, partition: PartitionFollowers) -> None:
        """Called by a partition when a follower's log start rose; most do not mind."""

    def high_watermark_rose(self) -> None:
        """Called by a partition when its high watermark rose, if it is appends that are waited for."""

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

    def __init__(self, complete: Completion[T], partitions: Iterable[PartitionReplicas], missing_bytes: int) -> None:
        super().__init__(complete, partitions)
        self._missing_bytes = missing_bytes

    def progressed(self, partition: PartitionReplicas, readable_bytes: int) -> None:  # noqa: ARG002 - any counts
        """Count readable bytes; a partition that stopped being led here ends the wait."""
        self._missing_bytes -= readable_bytes
        if readable_bytes < 0 or self._missing_bytes <= 0:
            self.trigger()


class DelayedReplicaFetch(DelayedFetch[T]):
    """A fetch of a follower: every appended byte is readable to it.

    If consumers may read from followers (KIP-392) it completes as well when a high watermark rose that the follower has
    not been told of, so that they need not wait for the next append.
    """

    __slots__ = ("_wants_high_watermarks",)

    waits_for_appends: ClassVar[bool] = True

    def __init__(
        self,
        complete: Completion[T],
        partitions: Iterable[PartitionReplicas],
        missing_bytes: int,
        *,
        wants_high_watermarks: bool = False,
    ) -> None:
        super().__init__(complete, partitions, missing_bytes)
        self._wants_high_watermarks = wants_high_watermarks

    def high_watermark_rose(self) -> None:
        """Complete if the follower wants to hear of it."""
        if self._wants_high_watermarks:
            self.trigger()


class DelayedCommittedFetch(DelayedFetch[T]):
    """A fetch under read_committed: bytes are readable once the last stable offset passed them.

    What came below the high watermark since the last stable offset moved counts as soon as it moves again. How much was
    undecided before the wait is not known: it is taken for enough.
    """

    __slots__ = ("_stable", "_undecided")

    def __init__(self, complete: Completion[T], partitions: Iterable[PartitionReplicas], missing_bytes: int) -> None:
        partitions = tuple(partitions)
        super().__init__(complete, partitions, missing_bytes)
        self._stable = {partition: partition.log.last_stable_offset for partition in partitions}
        self._undecided = {
            partition: 0 if stable == partition.log.high_watermark else missing_bytes
            for partition, stable in self._stable.items()
        }

    def progressed(self, partition: PartitionReplicas, readable_bytes: int) -> None:
        """Count bytes once they are stable."""
        if readable_bytes < 0:
            self.trigger()
            return
        self._undecided[partition] += readable_bytes
        stable = partition.log.last_stable_offset
        if stable > self._stable[partition]:
            self._stable[partition] = stable
            stable_bytes, self._undecided[partition] = self._undecided[partition], 0
            super().progressed(partition, stable_bytes)


class _DelayedByReplicas(Delayed[T]):
    """A request that completes once the replicas of every partition have reached an offset.

    After completion `failures` names the partitions where that did not happen, and why.
    """

    __slots__ = ("_failures", "_required")

    def __init__(self, complete: Completion[T], required: Mapping[Any, RequiredOffset]) -> None:
        super().__init__(complete, required)
        self._required: dict[Any, RequiredOffset] = dict(required)
        self._failures: dict[PartitionReplicas, ErrorCode] = {}

    def start(self, timeout_ms: int) -> asyncio.Future[T]:
        """Register, and look at each partition: it may have moved since its offset was required."""
        super().start(timeout_ms)
        for partition in self._partitions:
            self._look_at(partition)
        return self.future

    @property
    def failures(self) -> dict[PartitionReplicas, ErrorCode]:
        """Return the partitions whose replicas are not known to have reached the offset."""
        return {**dict.fromkeys(self._required, ErrorCode.request_timed_out), **self._failures}

    def progressed(self, partition: PartitionReplicas, readable_bytes: int) -> None:  # noqa: ARG002 - any counts
        """Forget a partition that is done, or whose leader epoch ended."""
        self._look_at(partition)

    def _outcome(self, partition: Any, required: RequiredOffset) -> ErrorCode | None:
        """Return what came of a partition, None if it has to be waited for."""
        raise NotImplementedError

    def _look_at(self, partition: PartitionReplicas) -> None:
        required = self._required.get(partition)
        outcome = None if required is None else self._outcome(partition, required)
        if outcome is None:
            return
        del self._required[partition]
        if outcome is not ErrorCode.none:
            self._failures[partition] = outcome
        if not self._required:
            self.trigger()


class DelayedProduce(_DelayedByReplicas[T]):
    """A produce with acks=all: it completes once every partition's high watermark passed its records."""

    __slots__ = ()

    def _outcome(self, partition: PartitionReplicas, required: RequiredOffset) -> ErrorCode | None:
        return partition.acknowledgement(required)


class DelayedDeletion(_DelayedByReplicas[T]):
    """A DeleteRecords: it completes once no living replica holds the deleted records any more."""

    __slots__ = ()

    def low_watermark_rose(self, partition: PartitionFollowers) -> None:
        """Forget the partition once its low watermark reached what was asked for."""
        self._look_at(partition)

    def _outcome(self, partition: PartitionFollowers, required: RequiredOffset) -> ErrorCode | None:
        if not partition.is_led_for(required):
            return ErrorCode.not_leader_or_follower
        return ErrorCode.none if partition.low_watermark() >= required.offset else None
