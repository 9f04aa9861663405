"""Which log is checked next: what is suspected first, then all of them in passes. PURE.

Owns the order, the times and the count of what is done; knows no files. The caller checks one log at a time and reports
each end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from crabka.ids import TopicPartition

# Of the suspicions that wait; a further one is left to the next pass.
MAX_SUSPECTED: Final = 1000
NEVER_MS: Final = 1 << 62
# After a repair that was not possible.
RETRY_MS: Final = 10_000


class ScrubJob(NamedTuple):
    """A log to check: all of it, or the segments with these base offsets."""

    topic_partition: TopicPartition
    base_offsets: frozenset[int] | None
    # Suspected logs are checked without delay.
    is_urgent: bool


@dataclass(slots=True)
class ScrubProgress:
    """How far the checks are."""

    pass_started_ms: int = -1
    pass_logs: int = 0
    pass_logs_done: int = 0
    last_pass_ms: int = -1
    passes: int = 0


class ScrubSchedule:
    """The order of checks of one node. Times are of the wall clock."""

    def __init__(self) -> None:
        self._next_pass_ms = NEVER_MS
        self._suspected: dict[TopicPartition, set[int]] = {}
        # When each was suspected last.
        self._suspected_ms: dict[tuple[TopicPartition, int], int] = {}
        self._retries: dict[TopicPartition, int] = {}
        self._left: list[TopicPartition] = []
        self._is_passing = False
        self.progress = ScrubProgress()

    def begin(self, first_pass_ms: int) -> None:
        """Say when the first pass begins."""
        self._next_pass_ms = first_pass_ms

    def suspect(self, topic_partition: TopicPartition, base_offset: int, now_ms: int) -> bool:
        """Check a segment as soon as possible; return False if that was done a moment ago, or too many wait already."""
        key = (topic_partition, base_offset)
        if topic_partition not in self._suspected and len(self._suspected) >= MAX_SUSPECTED:
            return False
        if now_ms - self._suspected_ms.get(key, -RETRY_MS) < RETRY_MS:
            return False
        if len(self._suspected_ms) >= MAX_SUSPECTED:
            self._suspected_ms.clear()
        self._suspected_ms[key] = now_ms
        self._suspected.setdefault(topic_partition, set()).add(base_offset)
        return True

    def retry(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Look at the damage of a log again after a while."""
        self._retries[topic_partition] = now_ms + RETRY_MS

    def hasten(self) -> None:
        """Begin a pass now, or begin the present one anew."""
        self._is_passing = False
        self._next_pass_ms = 0

    def next_retry(self, now_ms: int) -> TopicPartition | None:
        """Return a log whose repair is due again, and forget it."""
        for topic_partition, due_ms in self._retries.items():
            if due_ms <= now_ms:
                del self._retries[topic_partition]
                return topic_partition
        return None

    def next_job(
        self, now_ms: int, logs: Callable[[], Sequence[TopicPartition]], *, is_enabled: bool
    ) -> ScrubJob | None:
        """Return the next check, None if nothing is due. `logs` lists what a new pass goes over, in its order."""
        for topic_partition in self._suspected:
            base_offsets = frozenset(self._suspected.pop(topic_partition))
            return ScrubJob(topic_partition, base_offsets, is_urgent=True)
        if not self._is_passing:
            if now_ms < self._next_pass_ms or not is_enabled:
                return None
            self._begin_pass(now_ms, logs())
        if not self._left or not is_enabled:
            return None
        return ScrubJob(self._left.pop(), None, is_urgent=False)

    def _begin_pass(self, now_ms: int, logs: Sequence[TopicPartition]) -> None:
        self._is_passing = True
        self._left = list(reversed(logs))
        self.progress.pass_started_ms = now_ms
        self.progress.pass_logs, self.progress.pass_logs_done = len(self._left), 0

    def done(self, job: ScrubJob) -> None:
        """Take note that a check has ended."""
        if not job.is_urgent and self._is_passing:
            self.progress.pass_logs_done += 1

    def end_pass(self, now_ms: int, interval_ms: int) -> bool:
        """End the pass if all its logs are done; return whether it ended. The next one begins after the interval."""
        if not self._is_passing or self._left or self.progress.pass_logs_done < self.progress.pass_logs:
            return False
        self._is_passing = False
        self._next_pass_ms = self.progress.pass_started_ms + interval_ms
        self.progress.last_pass_ms = now_ms
        self.progress.passes += 1
        return True

    def wait_ms(self, now_ms: int) -> int:
        """Return how long nothing is due, unless something is suspected."""
        due = [*self._retries.values()]
        if not self._is_passing:
            due.append(self._next_pass_ms)
        return max(0, min(due, default=now_ms + RETRY_MS) - now_ms)
