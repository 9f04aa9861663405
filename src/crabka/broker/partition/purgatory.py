"""Requests that wait: fetches for bytes, produces for replication, deletions of records for all replicas.

`Delayed` is a request that waits, its condition says for what. Partitions notify it; it completes exactly once, by
progress or by its timer. Progress before the registration is not notified, so the condition is checked once after it.
Completion is scheduled on the loop and never runs inside the notification: the produce that made the progress is
answered before the fetch that it woke is read from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.partition.partition import Partition, RequiredOffset

T = TypeVar("T")

Completion = Callable[[], "T | asyncio.Future[T]"]
# The result of a partition whose replicas have to reach an offset, None while it has to be waited for.
OutcomeOf = Callable[["Partition", "RequiredOffset"], "ErrorCode | None"]


class WaitCondition(Protocol):
    """What a request waits for."""

    @property
    def partitions(self) -> Iterable[Partition]:
        """The partitions that notify."""

    @property
    def waits_for_appends(self) -> bool:
        """Whether they notify on appends, instead of when these are below the high watermark."""

    def is_met(self) -> bool:
        """Return whether there is nothing to wait for; asked once, after the registration."""

    def progressed(self, partition: Partition, readable_bytes: int) -> bool:
        """Take in newly readable bytes of a partition; return whether there is nothing more to wait for.

        The count is 0 when an offset moved without bytes, and negative when a leader epoch ended.
        """


class Delayed(Generic[T]):
    """A request that is answered when `complete` runs: when its condition is met or its time is up.

    `complete` returns the answer or a future of it. Cancelling `future`, as a lost connection does, ends the wait.
    """

    __slots__ = ("_complete", "_condition", "_done", "_partitions", "_timer", "future", "waits_for_appends")

    def __init__(self, complete: Completion[T], condition: WaitCondition) -> None:
        self._complete = complete
        self._condition = condition
        self._partitions = tuple(condition.partitions)
        self.waits_for_appends = condition.waits_for_appends
        self._done = False
        self._timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(self._release)

    def start(self, timeout_ms: int) -> asyncio.Future[T]:
        """Register with the partitions, arm the timer and return the future of the answer."""
        loop = self.future.get_loop()
        self._timer = loop.call_later(timeout_ms / 1000, self._finish)
        for partition in self._partitions:
            partition.waiters.add(self)
        if self._condition.is_met():
            self.trigger()
        return self.future

    def progressed(self, partition: Partition, readable_bytes: int) -> None:
        """Notify of newly readable bytes, as `WaitCondition.progressed` describes."""
        if self._condition.progressed(partition, readable_bytes):
            self.trigger()

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
            partition.waiters.remove(self)

    def _finish(self) -> None:
        self._done = True
        self._release()
        if self.future.done():
            return
        try:
            answer = self._complete()
        except Exception as error:  # noqa: BLE001 - any failure is the result of the request
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


class EnoughBytes:
    """A fetch that found fewer than `min_bytes`: that many bytes must become readable.

    To a follower every appended byte is readable. If consumers may read from followers (KIP-392), its fetch also
    completes when a high watermark rose, so that the new one does not wait for the next append.
    """

    __slots__ = ("_missing_bytes", "_wants_high_watermarks", "partitions", "waits_for_appends")

    def __init__(
        self,
        partitions: Iterable[Partition],
        missing_bytes: int,
        *,
        by_follower: bool = False,
        wants_high_watermarks: bool = False,
    ) -> None:
        self.partitions = partitions
        self.waits_for_appends = by_follower
        self._missing_bytes = missing_bytes
        self._wants_high_watermarks = wants_high_watermarks

    def is_met(self) -> bool:
        """Return whether enough bytes came."""
        return self._missing_bytes <= 0

    def progressed(self, partition: Partition, readable_bytes: int) -> bool:  # noqa: ARG002 - the sum counts
        """Count readable bytes; a partition that is led here no longer ends the wait."""
        self._missing_bytes -= readable_bytes
        return readable_bytes < 0 or self._missing_bytes <= 0 or (self._wants_high_watermarks and readable_bytes == 0)


class StableBytes:
    """A fetch under read_committed: bytes are readable once the last stable offset passed them.

    Bytes below the high watermark that came since the last stable offset moved count as soon as it moves again. The
    number of undecided bytes before the wait is not known: it is taken for enough.
    """

    __slots__ = ("_missing_bytes", "_stable", "_undecided", "partitions")

    waits_for_appends = False

    def __init__(self, partitions: Iterable[Partition], missing_bytes: int) -> None:
        self.partitions = tuple(partitions)
        self._missing_bytes = missing_bytes
        self._stable = {partition: partition.log.last_stable_offset for partition in self.partitions}
        self._undecided = {
            partition: 0 if stable == partition.log.high_watermark else missing_bytes
            for partition, stable in self._stable.items()
        }

    def is_met(self) -> bool:
        """Return whether enough bytes are stable."""
        return self._missing_bytes <= 0

    def progressed(self, partition: Partition, readable_bytes: int) -> bool:
        """Count bytes once they are stable; a partition that is led here no longer ends the wait."""
        if readable_bytes < 0:
            return True
        self._undecided[partition] += readable_bytes
        stable = partition.log.last_stable_offset
        if stable > self._stable[partition]:
            self._stable[partition] = stable
            self._missing_bytes -= self._undecided[partition]
            self._undecided[partition] = 0
        return self._missing_bytes <= 0


class ReachedOffsets:
    """The replicas of every partition must reach an offset; `outcome_of` says when they have.

    After completion `failures` names the partitions where that did not happen, and why.
    """

    __slots__ = ("_failures", "_outcome_of", "_required")

    waits_for_appends = False

    def __init__(self, required: Mapping[Partition, RequiredOffset], outcome_of: OutcomeOf) -> None:
        self._required = dict(required)
        self._outcome_of = outcome_of
        self._failures: dict[Partition, ErrorCode] = {}

    @property
    def partitions(self) -> Iterable[Partition]:
        """Return the partitions that have not reached their offset."""
        return tuple(self._required)

    @property
    def failures(self) -> dict[Partition, ErrorCode]:
        """Return the partitions whose replicas are not known to have reached the offset."""
        return {**dict.fromkeys(self._required, ErrorCode.request_timed_out), **self._failures}

    def is_met(self) -> bool:
        """Check each partition: it may have moved since its offset was required."""
        for partition in self.partitions:
            self.progressed(partition, 0)
        return not self._required

    def progressed(self, partition: Partition, readable_bytes: int) -> bool:  # noqa: ARG002 - offsets count
        """Remove a partition that has reached its offset, or whose leader epoch ended."""
        required = self._required.get(partition)
        outcome = None if required is None else self._outcome_of(partition, required)
        if outcome is None:
            return False
        del self._required[partition]
        if outcome is not ErrorCode.none:
            self._failures[partition] = outcome
        return not self._required


def replicated(partition: Partition, required: RequiredOffset) -> ErrorCode | None:
    """Return the outcome of a produce with acks=all: the high watermark must pass its records."""
    return partition.acknowledgement(required)


def deleted(partition: Partition, required: RequiredOffset) -> ErrorCode | None:
    """Return the outcome of a DeleteRecords: no living replica may hold the deleted records any more."""
    if not partition.is_led_for(required):
        return ErrorCode.not_leader_or_follower
    return ErrorCode.none if partition.followers.low_watermark() >= required.offset else None
