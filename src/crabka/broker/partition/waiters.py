"""The delayed requests of one partition, and how many bytes became readable since they were last notified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from crabka.broker.partition.partition import Partition
    from crabka.broker.partition.purgatory import Delayed

# Passed instead of a number of readable bytes when the leader epoch of this leader has ended.
LEADERSHIP_LOST: Final = -1


class PartitionWaiters:
    """Requests that wait for a partition, in the order of arrival, which is the order of the answers."""

    __slots__ = ("_notified_high_watermark", "_partition", "_unreadable_bytes", "for_appends", "for_readable")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.for_readable: dict[Delayed[Any], None] = {}
        # Fetches of followers: they wait for appends, whatever the high watermark does.
        self.for_appends: dict[Delayed[Any], None] = {}
        # Bytes above the high watermark, which become readable later; not counted without other replicas.
        self._unreadable_bytes = 0
        self._notified_high_watermark = 0

    def __len__(self) -> int:
        return len(self.for_readable) + len(self.for_appends)

    def add(self, waiter: Delayed[Any]) -> None:
        """Notify a request from now on: when the high watermark moves or, if it wants that, on every append."""
        (self.for_appends if waiter.waits_for_appends else self.for_readable)[waiter] = None

    def remove(self, waiter: Delayed[Any]) -> None:
        """Forget a request; unknown ones are fine."""
        (self.for_appends if waiter.waits_for_appends else self.for_readable).pop(waiter, None)

    def release(self) -> None:
        """Complete all requests now."""
        for waiter in (*self.for_readable, *self.for_appends):
            waiter.trigger()

    def release_followers(self) -> None:
        """Complete the fetches of followers now: they must fetch in another epoch, or from another kind of leader."""
        for waiter in tuple(self.for_appends):
            waiter.trigger()

    def notify(self, readable_bytes: int) -> None:
        """Report newly readable bytes, 0 for an offset that moved without bytes, or LEADERSHIP_LOST."""
        for waiter in tuple(self.for_readable):
            waiter.progressed(self._partition, readable_bytes)

    def notify_leadership_lost(self) -> None:
        """Report to all requests that this node leads no longer."""
        for waiter in (*self.for_readable, *self.for_appends):
            waiter.progressed(self._partition, LEADERSHIP_LOST)

    def note_led_append(self, appended_bytes: int) -> None:
        """Count bytes that other replicas do not have yet, and report them to followers."""
        self._unreadable_bytes += appended_bytes
        for waiter in tuple(self.for_appends):
            waiter.progressed(self._partition, appended_bytes)

    def note_followed(self, appended_bytes: int) -> None:
        """Report that this replica, as a follower, appended bytes, took over a higher high watermark, or both."""
        self._unreadable_bytes += appended_bytes
        self.notify_high_watermark()

    def begin_count(self) -> None:
        """Count readable bytes from the present high watermark on."""
        log = self._partition.log
        self._notified_high_watermark = log.high_watermark
        # The exact number of bytes above it is not known: the upper bound is taken.
        self._unreadable_bytes = log.size_bytes if log.high_watermark < log.log_end_offset else 0

    def notify_high_watermark(self) -> None:
        """Report the bytes that became readable if the high watermark rose.

        Their number is the share of the unreadable bytes that corresponds to the offsets, until it is all of them.
        """
        log = self._partition.log
        high_watermark, before = log.high_watermark, self._notified_high_watermark
        self._notified_high_watermark = high_watermark
        if high_watermark <= before:
            return
        readable = self._unreadable_bytes
        if high_watermark < log.log_end_offset:
            readable = readable * (high_watermark - before) // (log.log_end_offset - before)
        self._unreadable_bytes -= readable
        self.notify(max(1, readable))
        for waiter in tuple(self.for_appends):
            waiter.progressed(self._partition, 0)
